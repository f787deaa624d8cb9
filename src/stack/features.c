/* features.c - rows to features, and what has to be known for that. */
#include "stack/features.h"

enum { BUCKETS = 1 << 22, LEAST_ROWS = 2 };

static int is_marked(const char *piece) {
    return tri__text_begins(piece, "\xc4\xa0") || tri__text_begins(piece, "\xe2\x96\x81");
}

/* Whether a token continues a word: "##ing" of WordPiece; of vocabularies that mark where words begin (a blank's
 * stand-in in front), letters and digits without the mark. */
static int continues(const char *piece, int marks) {
    unsigned char c = (unsigned char)piece[0];
    int is_letter = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return (c == '#' && piece[1] == '#' && piece[2]) || (marks && is_letter && !is_marked(piece));
}

static tri_status open_text(const tri_tokenizer *tokenizer, struct tri_feature_text *text) {
    int marks = 0;
    text->n = tri__tokenizer_size(tokenizer);
    tri__tokenizer_specials(tokenizer, &text->before, &text->after);
    TRI_TRY(TRI_NEW(text->continues, text->n + 1, "the words of a vocabulary"));
    for (int i = 0; i < text->n && !marks; i++) marks = is_marked(tri__tokenizer_piece(tokenizer, i));
    for (int i = 0; i < text->n; i++) text->continues[i] = continues(tri__tokenizer_piece(tokenizer, i), marks) != 0;
    return TRI_OK;
}

tri_status tri__features_open(const tri_preprocess *p, tri_tokenizer *const *tokenizer, int n_texts, tri_features *f) {
    *f = (tri_features){.n_classes = p->target ? 0 : p->n_classes, .n_numbers = p->width, .n_texts = n_texts};
    f->n_outputs = f->n_classes > 2 ? f->n_classes : 1, f->n_dense = f->n_outputs;
    TRI_TRY(TRI_NEW(f->categories, p->width + 1, "features"));
    TRI_TRY(TRI_NEW(f->text, n_texts + 1, "features"));
    for (int c = 0, i = 0; c < p->n_columns; i += p->column[c++].width) {
        int is_category = p->vectors.at && p->vectors.at[c].kind == TRI_COLUMN_CATEGORY;
        if (is_category) f->n_categories += f->categories[i] = p->vectors.at[c].count + 1;
        else f->n_dense += p->column[c].width;
    }
    for (int t = 0; t < n_texts; t++) TRI_TRY(open_text(tokenizer[t], &f->text[t]));
    return TRI_OK;
}

void tri__features_free(tri_features *f) {
    for (int t = 0; f->text && t < f->n_texts; t++) free(f->text[t].continues);
    TRI_FREE(f->categories, f->text, f->known, f->found, f->bucket);
    *f = (tri_features){0};
}

int tri__features_count(const tri_features *f) { return f->n_dense + f->n_categories + f->n_terms; }

int tri__features_of_trees(const tri_features *f) {
    return tri__features_count(f) - (f->n_terms > TRI_TERMS_OF_TREES ? f->n_terms - TRI_TERMS_OF_TREES : 0);
}

/* ---- a row ---- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The terms of a text, in order, each as often as it occurs: n of them in f->bucket. -1: out of memory. */
static int64_t take_text(tri_features *f, int t, const tri_stack_row *row) {
    const struct tri_feature_text *text = &f->text[t];
    const int32_t *ids = row->ids[t];
    int64_t end = row->n_ids[t] - text->after, n = 0;
    uint64_t last = 0; /* the word before; 0: none */
    if (!tri__grow(&f->bucket, &f->bucket_room, (size_t)(2 * row->n_ids[t] + 1), sizeof *f->bucket)) return -1;
    for (int64_t i = text->before; i < end;) {
        uint64_t word = tri__hash64((uint64_t)t + 1, &ids[i], sizeof *ids);
        while (++i < end && ids[i] >= 0 && ids[i] < text->n && text->continues[ids[i]])
            word = tri__hash64(word, &ids[i], sizeof *ids);
        f->bucket[n++] = word % BUCKETS;
        if (last) f->bucket[n++] = tri__hash64(last, &word, sizeof word) % BUCKETS;
        last = word;
    }
    qsort(f->bucket, (size_t)n, sizeof *f->bucket, by_value);
    return n;
}

/* The place of a term among those that are kept; -1: it is not. */
static int32_t find_term(const tri_features *f, uint64_t term) {
    int low = 0;
    for (int high = f->n_terms, middle; low < high;)
        if (f->found[middle = (low + high) / 2] >> 32 < term) low = middle + 1;
        else high = middle;
    return low < f->n_terms && f->found[low] >> 32 == term ? (int32_t)(uint32_t)f->found[low] : -1;
}

static int add_sparse(tri_matrix *to, int32_t index, double value) {
    size_t need = (size_t)to->start[to->n + 1] + 1;
    if (!tri__grow(&to->index, &to->room[2], need, sizeof *to->index) ||
        !tri__grow(&to->value, &to->room[3], need, sizeof *to->value))
        return 0;
    to->index[need - 1] = index, to->value[need - 1] = (float)value, to->start[to->n + 1]++;
    return 1;
}

static int add_text(tri_features *f, int t, const tri_stack_row *row) {
    tri_matrix *to = f->to;
    int64_t first = to->start[to->n + 1], n = take_text(f, t, row);
    double squares = 0;
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && f->bucket[next] == f->bucket[i]; next++) continue;
        if (f->counts) f->counts[f->bucket[i]]++;
        int32_t at = find_term(f, f->bucket[i]);
        if (at < 0) continue;
        double value = (1 + log((double)(next - i))) * f->known[2 * f->n_dense + f->n_terms + at];
        if (!add_sparse(to, f->n_categories + at, value)) return 0;
        squares += value * value;
    }
    for (int64_t i = first; i < to->start[to->n + 1]; i++) to->value[i] = (float)((double)to->value[i] / sqrt(squares));
    return n >= 0;
}

static float log_of(float p) { return logf(fmaxf(p, 1e-7f)); }

tri_status tri__features_add(void *features, const tri_stack_row *row) {
    tri_features *f = features;
    tri_matrix *to = f->to;
    size_t dense = (size_t)to->n * (size_t)f->n_dense;
    int ok = tri__grow(&to->dense, &to->room[0], dense + (size_t)f->n_dense, sizeof *to->dense) &&
             tri__grow(&to->start, &to->room[1], (size_t)to->n + 2, sizeof *to->start), d = 0;
    if (!ok) return tri__fail(TRI_RESOURCE, "out of memory for features");
    float *x = to->dense + dense;
    int32_t category = 0;
    to->n_dense = f->n_dense, to->n_sparse = f->n_categories + f->n_terms, to->n_classes = f->n_classes;
    if (!to->n) to->start[0] = 0;
    to->start[to->n + 1] = to->start[to->n];
    if (f->n_classes == 2) x[d++] = log_of(row->outputs[1]) - log_of(row->outputs[0]);
    else for (; d < f->n_outputs; d++) x[d] = f->n_classes ? log_of(row->outputs[d]) : row->outputs[d];
    for (int i = 0; i < f->n_numbers; i++) {
        float number = row->numbers[i];
        if (!f->categories[i]) x[d++] = number == TRI_COLUMN_MISSING ? NAN : number;
        else if (number >= 0 && number < (float)f->categories[i]) ok &= add_sparse(to, category + (int32_t)number, 1);
        category += f->categories[i];
    }
    for (d = 0; d < f->n_dense && f->known; d++)
        x[d] = (float)(((double)x[d] - f->known[d]) / f->known[f->n_dense + d]);
    for (int t = 0; t < f->n_texts && (f->n_terms || f->counts) && ok; t++) ok = add_text(f, t, row);
    to->n++;
    return ok ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for a row's features");
}

/* ---- a table ---- */

tri_status tri__features_rows(const tri_features *f, const tri_dataset *data, float *outputs, tri_features_each *each,
                              void *context) {
    TRI_OWNED(tri__free_at) float *numbers = NULL;
    TRI_OWNED(tri__free_at) int32_t *ids = NULL;
    TRI_OWNED(tri__free_at) const int32_t **at = NULL;
    TRI_OWNED(tri__free_at) int64_t *n = NULL;
    size_t room = 0;
    int64_t width = f->n_classes > 1 ? f->n_classes : 1;
    TRI_TRY(TRI_NEW(numbers, f->n_numbers + 1, "features"));
    TRI_TRY(TRI_NEW(at, f->n_texts + 1, "features"));
    TRI_TRY(TRI_NEW(n, f->n_texts + 1, "features"));
    for (int64_t row = 0; row < data->n; row++) {
        int64_t sum = 0;
        for (int t = 0; t < f->n_texts; t++) sum += n[t] = data->text[t].start[row + 1] - data->text[t].start[row];
        if (!tri__grow(&ids, &room, (size_t)sum + 1, sizeof *ids))
            return tri__fail(TRI_RESOURCE, "out of memory for a row's tokens");
        for (int t = f->n_texts - 1; t >= 0; t--) {
            at[t] = ids + (sum -= n[t]);
            TRI_TRY(tri__dataset_ids(data, t, row, ids + sum));
        }
        if (f->n_numbers) TRI_TRY(tri__dataset_numbers(data, row, numbers));
        TRI_TRY(each(context, &(tri_stack_row){outputs + row * width, numbers, at, n}));
    }
    return TRI_OK;
}

tri_status tri__features_know(tri_features *f, const double *known, int n_terms, const char *name) {
    size_t n = 2 * ((size_t)f->n_dense + (size_t)n_terms);
    const double *term = known + 2 * f->n_dense;
    int right = 1;
    TRI_TRY(TRI_NEW(f->known, n + 1, "features"));
    TRI_TRY(TRI_NEW(f->found, n_terms + 1, "terms"));
    memcpy(f->known, known, n * sizeof *known);
    for (int d = 0; d < f->n_dense; d++) right &= known[f->n_dense + d] > 0;
    for (int i = 0; i < n_terms && right; i++) {
        right = term[i] >= 0 && term[i] < BUCKETS && term[i] == floor(term[i]);
        if (right) f->found[i] = (uint64_t)term[i] << 32 | (uint64_t)i;
    }
    if (!right) return tri__fail(TRI_DATA, "%s: its features' deviations or terms are wrong", name);
    qsort(f->found, (size_t)n_terms, sizeof *f->found, by_value);
    f->n_terms = n_terms;
    return TRI_OK;
}

static void find_moments(const tri_matrix *x, double *mean, double *deviation) {
    for (int d = 0; d < x->n_dense; d++) {
        double sum = 0, squares = 0, n = 0;
        for (int64_t i = 0; i < x->n; i++) {
            double value = (double)x->dense[i * x->n_dense + d];
            if (!isnan(value)) n++, sum += value, squares += value * value;
        }
        mean[d] = n > 0 ? sum / n : 0;
        double variance = n > 0 ? squares / n - mean[d] * mean[d] : 0;
        deviation[d] = variance > 1e-12 ? sqrt(variance) : 1;
    }
}

tri_status tri__features_fit(tri_features *f, const tri_dataset *data, float *outputs) {
    TRI_OWNED(tri__matrix_free) tri_matrix dense = {0};
    TRI_OWNED(tri__free_at) int32_t *counts = NULL; /* [BUCKETS] rows that have the term */
    TRI_OWNED(tri__free_at) uint64_t *order = NULL; /* the most frequent first, then by hash */
    TRI_OWNED(tri__free_at) double *known = NULL;
    int64_t n = 0;
    TRI_TRY(TRI_NEW(counts, BUCKETS, "terms"));
    TRI_TRY(TRI_NEW(order, BUCKETS, "terms"));
    TRI_TRY(TRI_NEW(known, 2 * ((int64_t)f->n_dense + TRI_TERMS_MAX), "terms"));
    f->to = &dense, f->counts = counts;
    tri_status status = tri__features_rows(f, data, outputs, tri__features_add, f);
    f->to = NULL, f->counts = NULL;
    TRI_TRY(status);
    find_moments(&dense, known, known + f->n_dense);
    for (uint64_t b = 0; b < BUCKETS; b++)
        if (counts[b] >= LEAST_ROWS) order[n++] = (uint64_t)(INT32_MAX - counts[b]) << 32 | b;
    qsort(order, (size_t)n, sizeof *order, by_value);
    n = n < TRI_TERMS_MAX ? n : TRI_TERMS_MAX;
    double *term = known + 2 * f->n_dense;
    for (int64_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)order[i];
        term[i] = (double)at, term[n + i] = log((1 + (double)data->n) / (1 + (double)counts[at])) + 1;
    }
    return tri__features_know(f, known, (int)n, "a stacked head");
}
