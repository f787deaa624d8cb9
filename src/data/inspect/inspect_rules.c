/* inspect_rules.c - finds columns that give the label away. For each column a rule is learned, the most frequent class
 * of each of its values (or of each range of values, if a numeric column has many), and scored on rows that it was not
 * learned from: another table's or, if there is none, one half of the rows after learning from the other. */
#include "base/sort.h"
#include "data/inspect/inspect_parts.h"

enum { VALUES_MAX = 256, RANGES = 64, CLASSES_MAX = 100, ROWS_MIN = 30, COUNTS_MAX = 1 << 26 };

typedef struct rule {
    const tri_value_form *form; /* of the column's numbers */
    double edge[RANGES];  /* ranges: value < edge[0], < edge[1], ... */
    int n_edges;          /* 0: single values */
    tri_tally values;     /* single values, or ranges by number */
    int32_t *seen;        /* [values.capacity, n_classes] rows learned from */
    int64_t room;
} rule;

/* Whether a row is learned from (score = 0) or scored (1). */
static int takes_part(const tri_inspection *out, int split, int64_t row, int score) {
    if (out->scored != out->base) return split == (score ? out->scored : out->base);
    /* a pseudo-random half, so that periodic tables do no harm */
    return split == out->base && (int)((uint64_t)row * 0x9E3779B97F4A7C15u >> 63) == score;
}

/* Divides the column's numbers into ranges with about equal numbers of rows. */
static tri_status cut_ranges(const tri_inspector *in, int column, rule *rule) {
    const tri_inspection *out = in->out;
    int64_t rows = out->split[out->base].rows, n = 0;
    TRI_OWNED(tri__free_at) double *number = malloc((size_t)rows * sizeof *number + 1);
    if (!number) return tri__inspect_no_memory(in);
    for (int64_t row = 0; row < rows; row++) {
        if (takes_part(out, out->base, row, 0) &&
            tri__form_number(rule->form, &in->reading, tri__inspect_field(in, out->base, row, column), &number[n]) ==
                TRI_NUMBER_GOOD)
            n++;
        tri__rows_passed(in->table[out->base], row);
    }
    tri__sort_doubles(number, n);
    for (int i = 1; i < RANGES && n; i++) {
        double edge = number[n * i / RANGES];
        if (!rule->n_edges || edge > rule->edge[rule->n_edges - 1]) rule->edge[rule->n_edges++] = edge;
    }
    return TRI_OK;
}

/* The rule's key: the value's hash, or the number of its range; missing values have a key too. */
static uint64_t rule_key(const tri_inspector *in, const rule *rule, tri_field_text field) {
    double number;
    char form[TRI_CANONICAL_BYTES];
    if (tri__field_missing(&in->reading, field)) field.length = 0;
    if (!rule->n_edges || tri__form_number(rule->form, &in->reading, field, &number) != TRI_NUMBER_GOOD)
        return tri__inspect_hash(tri__field_canonical(&in->reading, field, form));
    uint64_t range = 0;
    while (range < (uint64_t)rule->n_edges && number >= rule->edge[range]) range++;
    return range;
}

static tri_status learn(const tri_inspector *in, int column, rule *rule) {
    const tri_inspection *out = in->out;
    int classes = out->n_classes;
    for (int64_t row = 0; row < out->split[out->base].rows; row++) {
        int32_t label = in->klass[out->base][row];
        if (row) tri__rows_passed(in->table[out->base], row - 1);
        if (label < 0 || !takes_part(out, out->base, row, 0)) continue;
        int64_t entry =
            tri__tally_add(&rule->values, rule_key(in, rule, tri__inspect_field(in, out->base, row, column)), row);
        if (entry >= 0 && rule->room < rule->values.capacity) {
            int32_t *seen = realloc(rule->seen, (size_t)(rule->values.capacity * classes) * sizeof *seen);
            if (!seen) return tri__inspect_no_memory(in);
            size_t more = (size_t)((rule->values.capacity - rule->room) * classes);
            memset(seen + rule->room * classes, 0, more * sizeof *seen);
            rule->seen = seen, rule->room = rule->values.capacity;
        }
        if (entry < 0) return tri__inspect_no_memory(in);
        rule->seen[entry * classes + label]++;
    }
    return TRI_OK;
}

/* The most frequent class, the first of equals. */
static int32_t most_frequent(const int32_t *seen, int classes) {
    int32_t best = 0;
    for (int c = 1; c < classes; c++)
        if (seen[c] > seen[best]) best = c;
    return best;
}

/* The share of scored rows that the rule predicts correctly; it predicts `otherwise` for unknown values. */
static double score(const tri_inspector *in, int column, const rule *rule, int32_t otherwise) {
    const tri_inspection *out = in->out;
    int64_t right = 0, rows = 0;
    for (int64_t row = 0; row < out->split[out->scored].rows; row++) {
        int32_t label = in->klass[out->scored][row];
        if (row) tri__rows_passed(in->table[out->scored], row - 1);
        if (label < 0 || !takes_part(out, out->scored, row, 1)) continue;
        int64_t entry =
            tri__tally_find(&rule->values, rule_key(in, rule, tri__inspect_field(in, out->scored, row, column)));
        right += label == (entry < 0 ? otherwise : most_frequent(rule->seen + entry * out->n_classes, out->n_classes));
        rows++;
    }
    return rows >= ROWS_MIN ? (double)right / (double)rows : -1;
}

static void end_rule(rule *rule) {
    tri__tally_free(&rule->values);
    free(rule->seen);
}

static tri_status try_column(const tri_inspector *in, int index, int32_t otherwise) {
    tri_inspect_column *column = &in->out->column[index];
    TRI_OWNED(end_rule) rule rule = {.form = &column->form.form};
    int numbers = column->numbers == column->filled || tri__inspect_has_form(column);
    if (numbers && column->distinct > VALUES_MAX) TRI_TRY(cut_ranges(in, index, &rule));
    TRI_TRY(learn(in, index, &rule));
    column->rule = score(in, index, &rule, otherwise);
    return TRI_OK;
}

/* A text, or an id that differs in each row, has no values to learn from. */
static int can_decide(const tri_inspection *out, int index) {
    const tri_inspect_column *c = &out->column[index];
    if (index == out->label || c->missing[out->scored] < 0) return 0;
    int numbers = c->numbers == c->filled;
    if (c->distinct > COUNTS_MAX / out->n_classes) return 0;
    return c->kind == TRI_INSPECT_NUMERIC || c->kind == TRI_INSPECT_CATEGORICAL || tri__inspect_has_form(c) ||
           (c->kind == TRI_INSPECT_ID && (numbers || !c->key));
}

tri_status tri__inspect_rules(tri_inspector *in) {
    tri_inspection *out = in->out;
    int32_t seen[CLASSES_MAX] = {0}, otherwise;
    if (out->label < 0 || out->n_classes < 2 || out->n_classes > CLASSES_MAX) return TRI_OK;
    out->scored = out->base;
    for (int s = 0; s < TRI_SPLITS && out->scored == out->base; s++)
        if (s != out->base && in->klass[s] && out->split[s].rows >= ROWS_MIN) out->scored = s;
    int64_t rows = 0, right = 0;
    for (int64_t row = 0; row < out->split[out->base].rows; row++)
        if (in->klass[out->base][row] >= 0 && takes_part(out, out->base, row, 0)) seen[in->klass[out->base][row]]++;
    otherwise = most_frequent(seen, out->n_classes);
    for (int64_t row = 0; row < out->split[out->scored].rows; row++)
        if (in->klass[out->scored][row] >= 0 && takes_part(out, out->scored, row, 1))
            rows++, right += in->klass[out->scored][row] == otherwise;
    if (rows < ROWS_MIN) return TRI_OK;
    out->majority = (double)right / (double)rows;
    for (int c = 0; c < out->n_columns; c++)
        if (can_decide(out, c)) TRI_TRY(try_column(in, c, otherwise));
    return TRI_OK;
}
