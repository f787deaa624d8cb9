/* plan_map.c - `trident plan --attention-map FILE`: which keys each query attends to, as an SVG picture: a panel for
 * each encoder and, where its heads differ, for each of their layouts. */
#include "cli/cli.h"

#include "engine/assets.h"
#include "web/pattern_svg.h"

enum { MOST_LAYOUTS = 6, MOST_PANELS = 2 * MOST_LAYOUTS, WORDS = 160 }; /* of an encoder; of both */

typedef struct map {
    tri_pattern_panel panel[MOST_PANELS];
    char title[MOST_PANELS][WORDS], note[MOST_PANELS][WORDS];
    float *share[MOST_PANELS];
    uint8_t *present; /* [block rows] */
    int n;
} map;

static int64_t tokens_in(int64_t block, int64_t max_len, int64_t i) {
    return max_len - i * block < block ? max_len - i * block : block;
}

/* Fills a panel's cells with the shares of their blocks that are present; returns the keys of a query, on average. */
static double fill_cells(const tri_pattern *p, int layout, int64_t max_len, int n, uint8_t *present, float *share) {
    int64_t rows = tri__pattern_rows(p, max_len);
    double pairs = 0;
    TRI_OWNED(tri__free_at) int *blocks = calloc((size_t)n * (size_t)n, sizeof *blocks); /* of a cell */
    if (!blocks) return -1;
    for (int64_t i = 0; i < rows; i++) {
        tri__pattern_row(p, layout, rows, i, present);
        for (int64_t j = 0; j < rows; j++) {
            int64_t cell = i * n / rows * n + j * n / rows;
            blocks[cell]++;
            share[cell] += present[j];
            if (present[j]) pairs += (double)(tokens_in(p->block, max_len, i) * tokens_in(p->block, max_len, j));
        }
    }
    for (int64_t cell = 0; cell < (int64_t)n * n; cell++) share[cell] /= (float)blocks[cell];
    return pairs / (double)max_len;
}

static tri_status add_panel(map *m, const tri_pattern *p, const char *whose, int layout, int64_t heads,
                            int64_t max_len) {
    int64_t rows = tri__pattern_rows(p, max_len);
    int n = (int)(rows < TRI_PATTERN_CELLS ? rows : TRI_PATTERN_CELLS), layouts = tri__pattern_layouts(p, heads);
    char count[32], which[64] = "";
    m->share[m->n] = calloc((size_t)n * (size_t)n, sizeof **m->share);
    free(m->present);
    m->present = malloc((size_t)rows);
    double keys = m->share[m->n] && m->present ? fill_cells(p, layout, max_len, n, m->present, m->share[m->n]) : -1;
    if (keys < 0) return tri__fail(TRI_RESOURCE, "out of memory for a picture");
    if (layouts == heads) snprintf(which, sizeof which, ", head %d", layout);
    else if (layouts > 1) snprintf(which, sizeof which, ", heads %d, %d, ...", layout, layout + layouts);
    snprintf(m->title[m->n], WORDS, "%s: %s%s", whose, tri__pattern_mode_name(p->mode), which);
    if (p->window)
        tri__text_append(m->title[m->n], WORDS, ", ", "%lld tokens on each side", (long long)(p->window + 1) / 2);
    snprintf(m->note[m->n], WORDS, "blocks of %lld; %s keys a query (%.3g %%)", (long long)p->block,
             tri__text_count((int64_t)(keys + 0.5), count), 100 * keys / (double)max_len);
    m->panel[m->n] = (tri_pattern_panel){m->title[m->n], m->note[m->n], (int)max_len, n, m->share[m->n]};
    m->n++;
    return TRI_OK;
}

static tri_status add_encoder(map *m, const tri_encoder *e, const char *whose, int64_t max_len, int *left_out) {
    int layouts = tri__pattern_layouts(&e->pattern, e->num_attention_heads);
    if (e->pattern.mode == TRI_PATTERN_DENSE) return TRI_OK;
    if (layouts > MOST_LAYOUTS) *left_out += layouts - MOST_LAYOUTS, layouts = MOST_LAYOUTS;
    for (int layout = 0; layout < layouts; layout++)
        TRI_TRY(add_panel(m, &e->pattern, whose, layout, e->num_attention_heads, max_len));
    return TRI_OK;
}

static tri_status draw(const tri_settings *settings, const tri_assets *assets, map *m) {
    const tri_encoder *e = assets->encoder;
    char title[WORDS], note[WORDS], count[32];
    int left_out = 0, same = assets->n_encoders > 1 &&
                             memcmp(&e[0].pattern, &e[1].pattern, sizeof e->pattern) == 0 &&
                             e[0].num_attention_heads == e[1].num_attention_heads;
    int64_t max_len = settings->model.max_sen_len;
    TRI_TRY(add_encoder(m, &e[0], same ? "both encoders" : "primary", max_len, &left_out));
    if (assets->n_encoders > 1 && !same) TRI_TRY(add_encoder(m, &e[1], "secondary", max_len, &left_out));
    if (!m->n)
        return tri__fail(TRI_USAGE, "--attention-map %s: attention is dense, there is no pattern to draw; give "
                         "--attention or attention_pattern", settings->attention_map);
    snprintf(title, sizeof title, "Attention over %s tokens", tri__text_count(max_len, count));
    snprintf(note, sizeof note, "blocks of keys that a block of queries attends to");
    if (left_out) tri__text_append(note, sizeof note, "; ", "%d more layouts are not drawn", left_out);
    tri_pattern_chart chart = {.title = title, .note = note, .panel = m->panel, .n = m->n};
    TRI_OWNED(tri__buffer_free) tri_buffer svg = {0};
    TRI_TRY(tri__pattern_svg(&chart, &svg));
    return tri__file_deliver(settings->attention_map, svg.text, svg.size, settings->force);
}

tri_status tri__write_map(const tri_settings *settings) {
    const tri_log silent = {0};
    TRI_OWNED(tri__assets_close) tri_assets assets = {0};
    TRI_OWNED(tri__free_at) map *m = NULL;
    if (!settings->attention_map) return TRI_OK;
    TRI_TRY(tri__assets_open(settings, 0, &silent, &assets));
    m = calloc(1, sizeof *m);
    tri_status status = m ? draw(settings, &assets, m) : tri__fail(TRI_RESOURCE, "out of memory for a picture");
    for (int i = 0; m && i < m->n; i++) free(m->share[i]);
    if (m) free(m->present);
    return status;
}
