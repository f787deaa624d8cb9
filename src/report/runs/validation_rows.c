/* validation_rows.c - the rows that a model gets most wrong, and those it is least sure of, with their fields. They
 * contain the user's data: shown only when asked for. */
#include "report/runs/run_parts.h"

#include "data/table/table.h"
#include "data/dataset/data_files.h"

enum { TEXT_WIDTH = 400, TEXT_BYTES = 4 * TEXT_WIDTH + 16, FIELDS = 24 };

/* A row and by what it is ordered. */
typedef struct ranked {
    double key;
    int64_t at;
} ranked;

static int largest_first(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

static double loss_of(const tri_predicted *p, int64_t i) {
    return -log(fmax((double)p->probs[i * p->n_classes + p->label[i]], 0x1p-126));
}

/* Of the most probable label, which is *best, over the second. */
static double margin_of(const tri_predicted *p, int64_t i, int *best) {
    const float *row = p->probs + i * p->n_classes; /* [n_classes] */
    float second = 0;
    *best = 0;
    for (int c = 1; c < p->n_classes; c++)
        if (row[c] > row[*best]) *best = c;
    for (int c = 0; c < p->n_classes; c++)
        if (c != *best && row[c] > second) second = row[c];
    return (double)row[*best] - (double)second;
}

/* ---- the table ---- */

typedef struct source {
    tri_table *table;   /* NULL: it cannot be read */
    int column[FIELDS]; /* [n] of the fields that the model reads */
    int n, label;       /* label: its column; -1 */
} source;

static char separator_of(const tri_json *config) {
    static const struct {
        const char *word;
        char c;
    } words[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"pipe", '|'}};
    const char *text = tri__text_in(config, "separator");
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i].word)) return words[i].c;
    return text && strlen(text) == 1 ? text[0] : 0;
}

static void add_column(source *s, const char *name) {
    int column, i = 0;
    if (!name || s->n >= FIELDS || tri__table_find(s->table, name, &column) != TRI_OK) return;
    while (i < s->n && s->column[i] != column) i++;
    if (i == s->n) s->column[s->n++] = column;
}

/* names: a name, or a list of them */
static void add_columns(source *s, const tri_json *names) {
    add_column(s, tri__json_string_value(names));
    tri__json_items(names, name) add_column(s, tri__json_string_value(name));
}

/* The validation table of the run's configuration; what is wrong with it is noted. */
static void open_source(tri_json *run, int64_t rows, source *s) {
    static const char *const keys[] = {"primary_text_name", "secondary_text_name", "secondary_text_list",
                                       "text_list", "tab_field_list", "cat_field_list"};
    const tri_json *config = tri__json_get(run, "config");
    const char *path = tri__text_in(config, "data_path"), *label;
    tri_data_files files;
    *s = (source){.label = -1};
    if (tri__json_get(tri__json_get(tri__json_get(run, "facts"), "bad_rows"), "valid")) {
        tri__run_missing(run, "rows are shown without their fields: bad rows were skipped, so their numbers are not "
                              "those of the table");
        return;
    }
    tri_status status = tri__data_files(path, &files);
    if (status == TRI_OK)
        status = tri__table_open(files.valid, &(tri_table_options){.separator = separator_of(config)}, &s->table);
    if (status != TRI_OK) {
        s->table = NULL;
        tri__run_missing(run, "rows are shown without their fields: %s", tri_error());
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) add_columns(s, tri__json_get(config, keys[i]));
    label = tri__text_in(config, "label_name");
    if (!label || tri__table_find(s->table, label, &s->label) != TRI_OK) s->label = -1;
    int is_part = tri__text_in(config, "split") || tri__whole_in(config, "folds") > 0;
    if (tri__table_rows(s->table) != rows && !is_part) {
        tri__run_missing(run, "rows are shown without their fields: %s has %lld rows, the validation had %lld",
                         files.valid, (long long)tri__table_rows(s->table), (long long)rows);
        tri__table_close(s->table);
        s->table = NULL;
    }
}

/* The same text, or the same number: a table may write 1 as 1.0. */
static int is_label(tri_field_text field, const char *label) {
    char text[64], *end, *label_end;
    if (field.length == strlen(label) && !memcmp(field.text, label, field.length)) return 1;
    if (!field.length || field.length >= sizeof text) return 0;
    memcpy(text, field.text, field.length);
    text[field.length] = 0;
    double a = strtod(text, &end), b = strtod(label, &label_end);
    return end > text && !*end && label_end > label && !*label_end && a == b;
}

/* The fields of a row; NULL if the table has another label there, so that it is not the table of the validation. */
static tri_json *fields_json(const source *s, int64_t row, const char *label) {
    char text[TEXT_BYTES];
    if (!s->table || row < 1 || row > tri__table_rows(s->table)) return NULL;
    if (s->label >= 0 && !is_label(tri__table_field(s->table, row - 1, s->label), label)) return NULL;
    tri_json *fields = tri__json_object();
    for (int i = 0; i < s->n; i++) {
        tri_field_text field = tri__table_field(s->table, row - 1, s->column[i]);
        char *whole = strndup(field.text ? field.text : "", field.length);
        if (whole)
            tri__json_set_new(fields, tri__table_name(s->table, s->column[i]),
                              tri__json_string(tri__text_brief(whole, TEXT_WIDTH, text, sizeof text)));
        free(whole);
    }
    return fields;
}

static tri_json *list_json(const tri_predicted *p, const ranked *order, int64_t n, const source *s, int *other) {
    tri_json *all = tri__json_array();
    for (int64_t k = 0; k < n; k++) {
        int64_t i = order[k].at;
        int best;
        double margin = margin_of(p, i, &best);
        const char *label = p->class[p->label[i]];
        tri_json *row = tri__json_pack("{s:I, s:s, s:s, s:f, s:f, s:f}", "row", (tri_json_int)p->row[i], "label", label,
                                       "predicted", p->class[best], "probability",
                                       (double)p->probs[i * p->n_classes + p->label[i]], "loss", loss_of(p, i),
                                       "margin", margin);
        tri_json *fields = fields_json(s, p->row[i], label);
        if (fields) tri__json_set_new(row, "fields", fields);
        else if (s->table) *other = 1;
        tri__json_append_new(all, row);
    }
    return all;
}

tri_status tri__predicted_rows(const tri_predicted *p, int most, tri_json *run, tri_json *into) {
    source s;
    int best, other = 0;
    TRI_OWNED(tri__free_at) ranked *order = malloc((size_t)p->n * sizeof *order);
    if (!order) return tri__fail(TRI_RESOURCE, "no memory for the rows of a validation");
    int64_t n = p->n < most ? p->n : most;
    open_source(run, p->n, &s);
    for (int64_t i = 0; i < p->n; i++) order[i] = (ranked){loss_of(p, i), i};
    qsort(order, (size_t)p->n, sizeof *order, largest_first);
    tri__json_set_new(into, "worst", list_json(p, order, n, &s, &other));
    for (int64_t i = 0; i < p->n; i++) order[i] = (ranked){-margin_of(p, i, &best), i};
    qsort(order, (size_t)p->n, sizeof *order, largest_first);
    tri__json_set_new(into, "uncertain", list_json(p, order, n, &s, &other));
    if (other)
        tri__run_missing(run, "some rows are shown without their fields: the table has other labels there; it is not "
                              "the table of the validation any more");
    if (s.table) tri__table_close(s.table);
    return TRI_OK;
}
