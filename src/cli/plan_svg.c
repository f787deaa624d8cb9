/* plan_svg.c - a simulated step as a picture: --svg FILE. */
#include "cli/cli.h"

#include "web/timeline_svg.h"

enum { MOST_ROWS = 64, LABEL = 32 }; /* up to so many ranks are all drawn; of more, one rank per stage */

typedef struct picture {
    tri_chart_row *row;          /* [n] */
    char (*label)[2][LABEL];     /* [n], label of the row and of its group */
    tri_chart_span *span;        /* of all rows */
    int n;
    char title[160], note[512];
} picture;

static double element(const tri_json *list, size_t i) { return tri__json_number_value(tri__json_at(list, i)); }

/* Whether a rank is drawn: all up to MOST_ROWS; of more, the first of each stage. */
static int is_drawn(const tri_json *ranks, size_t rank) {
    int stage = (int)tri__number_in(tri__json_at(ranks, rank), "stage");
    for (size_t i = 0; i < rank && tri__json_size(ranks) > MOST_ROWS; i++)
        if ((int)tri__number_in(tri__json_at(ranks, i), "stage") == stage) return 0;
    return 1;
}

/* [kind, microbatch, begin, end] */
static tri_chart_span leg_of(const tri_json *leg) {
    return (tri_chart_span){.kind = *tri__json_string_value(tri__json_at(leg, 0)), .mb = (int)element(leg, 1),
                            .begin = element(leg, 2), .end = element(leg, 3)};
}

static void add_row(picture *p, const tri_json *rank, int all, tri_chart_span **at) {
    const tri_json *legs = tri__json_get(rank, "legs"), *transfers = tri__json_get(rank, "transfers");
    tri_chart_row *row = &p->row[p->n];
    char(*label)[LABEL] = p->label[p->n++];
    int stage = (int)tri__number_in(rank, "stage");
    snprintf(label[0], LABEL, all ? "rank %d" : "stage %d", all ? (int)tri__number_in(rank, "rank") : stage);
    snprintf(label[1], LABEL, "stage %d", stage);
    *row = (tri_chart_row){.label = label[0], .leg = *at, .n_legs = (int)tri__json_size(legs),
                           .n_transfers = (int)tri__json_size(transfers)};
    row->transfer = row->leg + row->n_legs;
    if (all) row->group = stage, row->group_label = label[1];
    for (size_t i = 0; i < tri__json_size(legs); i++) *(*at)++ = leg_of(tri__json_at(legs, i));
    for (size_t i = 0; i < tri__json_size(transfers); i++) {
        const tri_json *span = tri__json_at(transfers, i);
        *(*at)++ = (tri_chart_span){.begin = element(span, 0), .end = element(span, 1), .mb = -1};
    }
}

static tri_status fill(picture *p, const tri_json *ranks, int stages) {
    size_t n = tri__json_size(ranks), spans = 0;
    for (size_t i = 0; i < n; i++) {
        const tri_json *rank = tri__json_at(ranks, i);
        if (is_drawn(ranks, i))
            spans += tri__json_size(tri__json_get(rank, "legs")) + tri__json_size(tri__json_get(rank, "transfers"));
    }
    TRI_TRY(TRI_NEW(p->row, n, "a picture"));
    TRI_TRY(TRI_NEW(p->label, n, "a picture"));
    TRI_TRY(TRI_NEW(p->span, spans + 1, "a picture"));
    tri_chart_span *at = p->span;
    for (size_t i = 0; i < n; i++)
        if (is_drawn(ranks, i)) add_row(p, tri__json_at(ranks, i), n <= MOST_ROWS, &at);
    for (int i = 0; i < p->n && stages == 1; i++) p->row[i].group_label = NULL;
    return TRI_OK;
}

/* "Training step on 16 ranks: pp 4 x tp 2 x dp 2, 1f1b, 16 microbatches"; axes of size one are omitted. */
static void write_title(picture *p, const tri_json *simulation) {
    static const char *const axes[] = {"pp", "tp", "dp"};
    const tri_json *mesh = tri__json_get(simulation, "mesh");
    const char *schedule = tri__text_in(simulation, "schedule");
    size_t ranks = tri__json_size(tri__json_get(simulation, "ranks"));
    int microbatches = (int)tri__number_in(simulation, "microbatches");
    const char *join = ": ";
    snprintf(p->title, sizeof p->title, "Training step on %zu rank%s", ranks, ranks == 1 ? "" : "s");
    for (int i = 0; i < 3; i++) {
        int size = (int)tri__number_in(mesh, axes[i]);
        if (size < 2) continue;
        tri__text_append(p->title, sizeof p->title, join, "%s %d", axes[i], size);
        join = " \xC3\x97 ";
    }
    if (schedule && tri__number_in(mesh, "pp") > 1)
        tri__text_append(p->title, sizeof p->title, ", ", "%.32s", schedule);
    if (microbatches)
        tri__text_append(p->title, sizeof p->title, ", ", "%d microbatch%s", microbatches,
                         microbatches == 1 ? "" : "es");
}

static void write_note(picture *p, const tri_settings *settings, const tri_json *simulation) {
    double seconds = tri__number_in(simulation, "step_seconds"), unit = seconds >= 1 ? 1 : 1e-3;
    char config[64], reduced[96] = "", count[32];
    const tri_json *ranks = tri__json_get(simulation, "ranks");
    const char *slash = settings->config ? strrchr(settings->config, '/') : NULL, *name = settings->config;
    if (slash) name = slash + 1;
    if (tri__json_size(ranks) > MOST_ROWS)
        snprintf(reduced, sizeof reduced, "; drawn: the first rank of each stage, of %s",
                 tri__text_count((int64_t)tri__json_size(ranks), count));
    snprintf(p->note, sizeof p->note, "%s%ssimulated on %s: %.3g %s a step, %.4g samples/s, predicted bubble %.1f %%%s",
             name ? tri__text_brief(name, 60, config, sizeof config) : "", name ? ", " : "",
             tri__text_in(simulation, "hardware"), seconds / unit, unit == 1 ? "s" : "ms",
             tri__number_in(simulation, "samples_per_second"), 100 * tri__number_in(simulation, "predicted_bubble"),
             reduced);
}

tri_status tri__pictures_check(const tri_settings *settings, const char *const *words, int n_words) {
    const tri_output timeline = {.option = "--svg", .path = settings->svg, .words = words, .n_words = n_words},
                     map = {.option = "--attention-map", .path = settings->attention_map};
    TRI_TRY(tri__output_check(settings, &timeline));
    return tri__output_check(settings, &map);
}

tri_status tri__write_timeline(const tri_settings *settings, const tri_json *simulation) {
    const tri_json *ranks = tri__json_get(simulation, "ranks");
    picture p = {0};
    TRI_OWNED(tri__buffer_free) tri_buffer svg = {0};
    if (!settings->svg) return TRI_OK;
    write_title(&p, simulation);
    write_note(&p, settings, simulation);
    tri_status status = fill(&p, ranks, (int)tri__number_in(tri__json_get(simulation, "mesh"), "pp"));
    tri_timeline_chart chart = {.title = p.title, .note = p.note, .seconds = tri__number_in(simulation, "step_seconds"),
                                .row = p.row, .n_rows = p.n};
    if (status == TRI_OK) status = tri__timeline_svg(&chart, &svg);
    if (status == TRI_OK) status = tri__file_deliver(settings->svg, svg.text, svg.size, settings->force);
    TRI_FREE(p.row, p.label, p.span);
    return status;
}
