/* predict.c - `trident predict`: label and probabilities of each row, or its numbers, as CSV (RFC 4180), as TSV, or as
 * JSON lines, one object per row. Kept columns come first, then the row's number unless the output has all rows in
 * order. */
#include "cli/launch.h"

#include "serve/serve.h"

#define ROW(kind, field, ...) TRI_OWN_ROW(tri_predict_options, "predict", kind, field, __VA_ARGS__)
const tri_option tri__predict_options[] = {
    ROW(TEXTS, keep, .repeats = 1, .help = "columns of the table to write before each prediction, or all"),
    ROW(INT, top_k, .value = "0", .min = 0, .max = 65536,
        .help = "write so many classes, the most probable first; 0: the probability of each class"),
    ROW(INT, uncertain, .min = 1, .max = INFINITY,
        .help = "write so many rows, the least certain first: those worth a label next"),
    TRI_OWN_END(tri_predict_options)};

typedef enum form { CSV, TSV, JSON_LINES } form;

/* A row, and how certain its answer is. */
typedef struct ranked {
    double margin;
    int64_t row;
} ranked;

/* The output and its format. */
typedef struct writer {
    FILE *out;
    tri_buffer *line; /* of CSV, not yet written */
    form form;
    int fields;       /* in it */
    int numbered;     /* write row numbers */
    int top;          /* classes written per row; 0: all, in class order */
    const tri_predictions *p;
    int *order;       /* [n_classes] of one row */
    tri_buffer labels; /* of one row that may have several */
    int64_t rows;     /* written */
    ranked *rank;     /* [n] of --uncertain; NULL: all rows, in order */
} writer;

static int ends(const char *path, const char *ending) {
    size_t length = path ? strlen(path) : 0, n = strlen(ending);
    return length >= n && strcasecmp(path + length - n, ending) == 0;
}

/* Chooses the format from the file name. Other formats are refused, never written as CSV. */
static tri_status choose_form(const char *path, int json, form *out) {
    static const struct {
        const char *ending;
        form form;
    } written[] = {{".csv", CSV}, {".tsv", TSV}, {".jsonl", JSON_LINES}, {".ndjson", JSON_LINES}};
    static const char *const others[] = {".xlsx", ".xls", ".ods", ".orc",  ".avro", ".pkl", ".npy", ".npz",
                                         ".h5",   ".db",  ".gz",  ".html", ".zip",  ".bz2", ".xz",  ".zst"};
    *out = json ? JSON_LINES : CSV;
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        if (!ends(path, written[i].ending)) continue;
        if (json && written[i].form != JSON_LINES)
            return tri__fail(TRI_USAGE, "-o %s and --json: the name says %s; name it .jsonl, or leave out --json", path,
                             written[i].ending);
        *out = written[i].form;
        return TRI_OK;
    }
    char ending[TRI_ENDING_BYTES];
    int refused = 0;
    for (int shared = 0; shared < 2; shared++)
        for (int i = 0; tri__table_ending(shared, i, ending); i++) refused |= ends(path, ending);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) refused |= ends(path, others[i]);
    if (!refused) return TRI_OK;
    return tri__fail(TRI_USAGE, "-o %s: %s files are not written; name it .csv, .tsv or, for an object a row, .jsonl",
                     path, strrchr(path, '.'));
}

static void put_field(writer *w, const char *text, size_t length) {
    char separator = w->form == TSV ? '\t' : ',';
    if (w->fields++) tri__buffer_add(w->line, &separator, 1);
    tri__buffer_csv(w->line, separator, "", text, length);
}

static void put_text(writer *w, const char *text) { put_field(w, text, strlen(text)); }

static void put_probability(writer *w, float p) { put_text(w, TRI_TEXT(32, "%.9g", (double)p)); }

static tri_status end_line(writer *w) {
    tri__buffer_add(w->line, "\n", 1);
    if (w->line->failed) return tri__fail(TRI_RESOURCE, "out of memory for the predictions");
    fwrite(w->line->text, 1, w->line->size, w->out);
    w->line->size = 0, w->fields = 0;
    return TRI_OK;
}

/* Writes the name of a generated column, renamed if a kept column has the same name. */
static tri_status put_name(writer *w, const char *prefix, const char *name) {
    char *full = NULL, *longer;
    if (asprintf(&full, "%s%s", prefix, name) < 0) return tri__fail(TRI_RESOURCE, "out of memory for the predictions");
    for (int c = 0; c < w->p->n_columns; c++) {
        if (strcmp(tri__table_name(w->p->table, w->p->column[c]), full)) continue;
        int n = asprintf(&longer, "predicted_%s", full);
        free(full);
        if (n < 0) return tri__fail(TRI_RESOURCE, "out of memory for the predictions");
        full = longer, c = -1;
    }
    put_text(w, full);
    free(full);
    return TRI_OK;
}

/* Sorts the classes of row i into output order: the label, then by falling probability, ties in class order. */
static const float *sort_classes(const writer *w, int64_t i) {
    const float *probs = w->p->probs + i * w->p->n_classes;
    int n = w->p->n_classes, most = w->top ? w->top : 1;
    if (w->p->is_number) return probs;
    int label = tri__decision_class(&w->p->decision, probs, n);
    for (int c = 0; c < n; c++) w->order[c] = c;
    for (int k = 0; k < most; k++) {
        int best = k ? k : label;
        for (int c = k + 1; c < n && k; c++)
            if (probs[w->order[c]] > probs[w->order[best]]) best = c;
        int chosen = w->order[best];
        memmove(w->order + k + 1, w->order + k, (size_t)(best - k) * sizeof *w->order);
        w->order[k] = chosen;
    }
    return probs;
}

static int by_margin(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return x->margin != y->margin ? (x->margin > y->margin) - (x->margin < y->margin)
                                  : (x->row > y->row) - (x->row < y->row);
}

/* How certain a row's answer is (tri_predict_options.uncertain). */
static double certainty(const tri_predictions *p, int64_t i) {
    const float *probs = p->probs + i * p->n_classes;
    double best = -1, next = -1, least = 1;
    if (p->n_levels) return (double)probs[1] - (double)probs[p->n_levels];
    for (int c = 0; c < p->n_classes; c++) {
        double at = (double)probs[c];
        least = fmin(least, fabs(at - (p->from ? (double)p->from[c] : 0.5)));
        if (at > best) next = best, best = at;
        else if (at > next) next = at;
    }
    return p->separator ? least : best - next;
}

/* All rows, the least certain first. */
static tri_status rank_rows(const tri_predictions *p, ranked **out) {
    TRI_TRY(TRI_NEW(*out, p->n + 1, "the order of the rows"));
    for (int64_t i = 0; i < p->n; i++) (*out)[i] = (ranked){certainty(p, i), i};
    qsort(*out, (size_t)p->n, sizeof **out, by_margin);
    return TRI_OK;
}

static tri_status put_header(writer *w) {
    const tri_predictions *p = w->p;
    for (int c = 0; c < p->n_columns; c++) put_text(w, tri__table_name(p->table, p->column[c]));
    if (w->numbered) TRI_TRY(put_name(w, "", "row"));
    if (!p->is_number) TRI_TRY(put_name(w, "", p->separator ? "labels" : "label"));
    for (int c = 0; !w->top && c < p->n_classes; c++) TRI_TRY(put_name(w, p->is_number ? "" : "prob_", p->label[c]));
    for (int k = 1; k <= w->top; k++) {
        const char *number = k > 1 ? TRI_TEXT(16, "_%d", k) : "";
        if (k > 1) TRI_TRY(put_name(w, "label", number));
        TRI_TRY(put_name(w, "prob", number));
    }
    return end_line(w);
}

static tri_status put_labels(writer *w, const float *probs) {
    const tri_predictions *p = w->p;
    w->labels.size = 0;
    tri__decision_labels(&p->decision, (const char *const *)p->label, p->n_classes, probs,
                         *p->separator ? p->separator : ";", &w->labels);
    if (w->labels.failed) return tri__fail(TRI_RESOURCE, "out of memory for the predictions");
    put_field(w, w->labels.text ? w->labels.text : "", w->labels.size);
    return TRI_OK;
}

static tri_status put_row(writer *w, int64_t i) {
    const tri_predictions *p = w->p;
    const float *probs = sort_classes(w, i);
    for (int c = 0; c < p->n_columns; c++) {
        tri_field_text field = tri__table_field(p->table, p->row[i], p->column[c]);
        put_field(w, field.text, field.length);
    }
    if (w->numbered) put_text(w, TRI_TEXT(32, "%lld", (long long)tri__table_record(p->table, p->row[i])));
    if (p->separator) TRI_TRY(put_labels(w, probs));
    else if (!p->is_number) put_text(w, p->label[w->order[0]]);
    for (int c = 0; !w->top && c < p->n_classes; c++) put_probability(w, probs[c]);
    for (int k = 0; k < w->top; k++) {
        if (k) put_text(w, p->label[w->order[k]]);
        put_probability(w, probs[w->order[k]]);
    }
    return end_line(w);
}

static tri_status put_object(writer *w, int64_t i) {
    const tri_predictions *p = w->p;
    const float *probs = sort_classes(w, i);
    tri_json *row = tri__json_object(), *labels = NULL, *each = w->top ? tri__json_array() : tri__json_object();
    if (p->n_columns) {
        tri_json *kept = tri__json_object();
        for (int c = 0; c < p->n_columns; c++) {
            tri_field_text field = tri__table_field(p->table, p->row[i], p->column[c]);
            tri__json_set_new(kept, tri__table_name(p->table, p->column[c]),
                              tri__json_stringn(field.text, field.length));
        }
        tri__json_set_new(row, "kept", kept);
    }
    if (w->numbered) tri__json_set_new(row, "row", tri__json_integer(tri__table_record(p->table, p->row[i])));
    if (p->separator) tri__json_set_new(row, "labels", labels = tri__json_array());
    else if (!p->is_number) tri__json_set_new(row, "label", tri__json_string(p->label[w->order[0]]));
    for (int c = 0; labels && c < p->n_classes; c++)
        if (tri__decision_has(&p->decision, c, probs[c])) tri__json_append_new(labels, tri__json_string(p->label[c]));
    for (int c = 0; !w->top && c < p->n_classes; c++)
        tri__json_set_new(p->is_number ? row : each, p->label[c], tri__json_real((double)probs[c]));
    for (int k = 0; k < w->top; k++)
        tri__json_append_new(each, tri__json_pack("{s:s, s:f}", "label", p->label[w->order[k]], "probability",
                                                  (double)probs[w->order[k]]));
    if (p->is_number) tri__json_decref(each);
    else tri__json_set_new(row, w->top ? "top" : "probabilities", each);
    return tri__print_json_new(w->out, row);
}

static tri_status put_rows(void *context, FILE *out) {
    enum { STRIDE = 4096 };
    writer *w = context;
    const tri_predictions *p = w->p;
    w->out = out;
    if (w->form != JSON_LINES) TRI_TRY(put_header(w));
    for (int64_t k = 0, done = 0; k < w->rows; k++) {
        int64_t i = w->rank ? w->rank[k].row : k;
        TRI_TRY(w->form == JSON_LINES ? put_object(w, i) : put_row(w, i));
        if (w->rank) done = p->row[i];
        else if (!p->table || (i % STRIDE != STRIDE - 1 && i < p->n - 1)) continue;
        tri__table_done(p->table, done, p->row[i] + 1 - done);
        done = p->row[i] + 1;
    }
    return p->table ? tri__table_check(p->table) : TRI_OK;
}

static tri_status write_all(tri_cli *cli, const tri_settings *settings, const tri_predict_options *options, form form,
                            const tri_predictions *p) {
    tri_buffer line = {0};
    int64_t most = options->uncertain;
    TRI_OWNED(tri__free_at) ranked *rank = NULL;
    if (most) TRI_TRY(rank_rows(p, &rank));
    writer w = {.line = &line, .form = form,
                .numbered = most || settings->bad_rows != TRI_BAD_ROWS_FAIL || settings->part != TRI_PART_ASKED_ALL,
                .top = (int)options->top_k, .p = p, .rows = most && most < p->n ? most : p->n, .rank = rank,
                .order = malloc((size_t)p->n_classes * sizeof *w.order)};
    if (!w.order) return tri__fail(TRI_RESOURCE, "out of memory for the predictions");
    tri_status status = tri__output_write(cli, settings, "the predictions", put_rows, &w);
    free(w.order);
    tri__buffer_free(&w.labels);
    tri__buffer_free(&line);
    if (status == TRI_OK && settings->output && !settings->quiet)
        fprintf(cli->err, "%lld rows in %s\n", (long long)w.rows, settings->output);
    return status;
}

/* What each rank needs besides the settings. */
typedef struct request {
    const tri_predict_options *options;
    form form;
} request;

/* On each rank; the first one writes. */
static tri_status predict_here(tri_cli *cli, const tri_settings *settings, tri_world *world, int rank,
                               const tri_log *log, void *context) {
    const request *r = context;
    TRI_OWNED(tri__predictions_free) tri_predictions predictions = {0};
    tri_log stoppable = *log;
    stoppable.stop = cli->stop;
    TRI_TRY(tri__serve_predict(settings, world, r->options, &stoppable, &predictions));
    return rank ? TRI_OK : write_all(cli, settings, r->options, r->form, &predictions);
}

tri_status tri__command_predict(tri_cli *cli, tri_command_call *call) {
    tri_settings *settings = &call->settings;
    request r = {.options = call->own};
    if (!settings->checkpoint || !settings->data_path)
        return tri__fail(TRI_USAGE, "predict needs --checkpoint and --data-path");
    TRI_TRY(choose_form(settings->output, settings->json, &r.form));
    TRI_TRY(tri__output_check(settings, &(tri_output){.option = "-o", .path = settings->output}));
    return tri__launch_infer(cli, settings, predict_here, &r);
}
