/* features.c - rows to features, and the terms of a training table. */
#include "stack/features.h"

enum { BUCKETS = 1 << 22, LEAST_ROWS = 2 };

/* ---- a row ---- */

/* Whether a token continues a word: "##ing" of WordPiece; of vocabularies that mark where words begin (a blank's stand-in
 * in front), letters and digits without the mark. */
static int continues(const char *piece, int marks) {
    if (piece[0] == '#' && piece[1] == '#' && piece[2]) return 1;
    unsigned char c = (unsigned char)piece[0];
    int is_letter = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return marks && is_letter;
}

static int is_marked(const char *piece) { return tri__text_begins(piece, "\xc4\xa0") || tri__text_begins(piece, "\xe2\x96\x81"); }

static tri_status open_text(const tri_tokenizer *tokenizer, struct tri_feature_text *text) {
    int marks = 0;
    text->n = tri__tokenizer_size(tokenizer);
    tri__tokenizer_specials(tokenizer, &text->before, &text->after);
    TRI_TRY(TRI_NEW(text->continues, text->n + 1, "the words of a vocabulary"));
    for (int i = 0; i < text->n && !marks; i++) marks = is_marked(tri__tokenizer_piece(tokenizer, i));
    for (int i = 0; i < text->n; i++) {
        const char *piece = tri__tokenizer_piece(tokenizer, i);
        text->continues[i] = !is_marked(piece) && continues(piece, marks);
    }
    return TRI_OK;
}

tri_status tri__features_open(const tri_preprocess *p, tri_tokenizer *const *tokenizer, int n_texts, tri_features *f) {
    *f = (tri_features){.n_classes = p->target ? 0 : p->n_classes, .n_numbers = p->width, .n_texts = n_texts};
    f->n_outputs = f->n_classes > 2 ? f->n_classes : 1, f->n_dense = f->n_outputs;
    TRI_TRY(TRI_NEW(f->categories, p->width + 1, "features"));
    TRI_TRY(TRI_NEW(f->text, n_texts + 1, "features"));
    for (int i = 0; i < p->width; i++) {
        int is_category = p->vectors.at && p->vectors.at[i].kind == TRI_COLUMN_CATEGORY;
        if (is_category) f->n_categories += f->categories[i] = p->vectors.at[i].count + 1;
        else f->n_dense++;
    }
    f->n_sparse = f->n_categories;
    for (int t = 0; t < n_texts; t++) TRI_TRY(open_text(tokenizer[t], &f->text[t]));
    TRI_TRY(TRI_NEW(f->mean, f->n_dense, "features"));
    TRI_TRY(TRI_NEW(f->scale, f->n_dense, "features"));
    TRI_TRY(TRI_NEW(f->dense, f->n_dense, "features"));
    for (int d = 0; d < f->n_dense; d++) f->scale[d] = 1;
    return TRI_OK;
}

void tri__features_free(tri_features *f) {
    for (int t = 0; f->text && t < f->n_texts; t++) free(f->text[t].continues);
    TRI_FREE(f->categories, f->text, f->mean, f->scale, f->term, f->idf, f->found, f->dense, f->bucket, f->index,
             f->value);
    *f = (tri_features){0};
}

int tri__features_of_trees(const tri_features *f) {
    return f->n_dense + f->n_categories + (f->n_terms < TRI_TERMS_OF_TREES ? f->n_terms : TRI_TERMS_OF_TREES);
}

static int by_bucket(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The terms of a text, in order, each as often as it occurs: n of them in f->bucket. -1: out of memory. */
static int64_t take_text(tri_features *f, int t, const int32_t *ids, int64_t n_ids) {
    const struct tri_feature_text *text = &f->text[t];
    int64_t end = n_ids - text->after, n = 0;
    uint64_t last = 0; /* the word before; 0: none */
    if (!tri__grow(&f->bucket, &f->bucket_room, (size_t)(2 * n_ids + 1), sizeof *f->bucket)) return -1;
    for (int64_t i = text->before; i < end;) {
        uint64_t word = tri__hash64((uint64_t)t + 1, &ids[i], sizeof *ids);
        while (++i < end && ids[i] >= 0 && ids[i] < text->n && text->continues[ids[i]])
            word = tri__hash64(word, &ids[i], sizeof *ids);
        f->bucket[n++] = (uint32_t)(word % BUCKETS);
        if (last) f->bucket[n++] = (uint32_t)(tri__hash64(last, &word, sizeof word) % BUCKETS);
        last = word;
    }
    qsort(f->bucket, (size_t)n, sizeof *f->bucket, by_bucket);
    return n;
}

/* The place of a term among those that are kept; -1: it is not. */
static int32_t find_term(const tri_features *f, uint32_t term) {
    int low = 0, high = f->n_terms;
    while (low < high) {
        int middle = low + (high - low) / 2;
        uint32_t at = (uint32_t)(f->found[middle] >> 32);
        if (at == term) return (int32_t)(uint32_t)f->found[middle];
        if (at < term) low = middle + 1;
        else high = middle;
    }
    return -1;
}

static int add_sparse(tri_features *f, int32_t index, float value) {
    if (!tri__grow(&f->index, &f->index_room, (size_t)f->n + 1, sizeof *f->index) ||
        !tri__grow(&f->value, &f->value_room, (size_t)f->n + 1, sizeof *f->value))
        return 0;
    f->index[f->n] = index, f->value[f->n++] = value;
    return 1;
}

/* Adds n sorted terms of a text. */
static int add_terms(tri_features *f, int64_t n) {
    int64_t first = f->n;
    double squares = 0;
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && f->bucket[next] == f->bucket[i]; next++) continue;
        int32_t at = find_term(f, f->bucket[i]);
        if (at < 0) continue;
        double value = (1 + log((double)(next - i))) * (double)f->idf[at];
        if (!add_sparse(f, f->n_categories + at, (float)value)) return 0;
        squares += value * value;
    }
    for (int64_t i = first; i < f->n; i++) f->value[i] = (float)((double)f->value[i] / sqrt(squares));
    return 1;
}

static float log_of(float p) { return logf(fmaxf(p, 1e-7f)); }

tri_status tri__features_take(tri_features *f, const tri_stack_row *row) {
    int d = 0, ok = 1;
    int32_t category = 0;
    f->n = 0;
    if (f->n_classes == 2) f->dense[d++] = log_of(row->outputs[1]) - log_of(row->outputs[0]);
    else while (d < f->n_outputs) f->dense[d] = f->n_classes ? log_of(row->outputs[d]) : row->outputs[d], d++;
    for (int i = 0; i < f->n_numbers; i++) {
        float x = row->numbers[i];
        if (!f->categories[i]) f->dense[d++] = x == TRI_COLUMN_MISSING ? NAN : x;
        else if (x >= 0 && x < (float)f->categories[i]) ok &= add_sparse(f, category + (int32_t)x, 1);
        category += f->categories[i];
    }
    for (d = 0; d < f->n_dense; d++) f->dense[d] = (float)(((double)f->dense[d] - f->mean[d]) * f->scale[d]);
    for (int t = 0; t < f->n_texts && f->n_terms && ok; t++) {
        int64_t n = take_text(f, t, row->ids[t], row->n_ids[t]);
        ok = n >= 0 && add_terms(f, n);
    }
    return ok ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for a row's features");
}

/* ---- a table ---- */

/* Reads rows one after the other: calls each() with them. */
static tri_status read_rows(const tri_features *f, const tri_dataset *data, const float *outputs,
                            tri_status (*each)(void *context, int64_t row, const tri_stack_row *of), void *context) {
    TRI_OWNED(tri__free_at) float *numbers = NULL;
    TRI_OWNED(tri__free_at) int32_t *ids = NULL;
    const int32_t *at[f->n_texts + 1];
    int64_t n[f->n_texts + 1], width = f->n_classes > 1 ? f->n_classes : 1, most = 1;
    for (int64_t row = 0; row < data->n; row++) {
        int64_t sum = 0;
        for (int t = 0; t < f->n_texts; t++) sum += data->text[t].start[row + 1] - data->text[t].start[row];
        most = sum > most ? sum : most;
    }
    TRI_TRY(TRI_NEW(numbers, f->n_numbers + 1, "features"));
    TRI_TRY(TRI_NEW(ids, most, "features"));
    for (int64_t row = 0; row < data->n; row++) {
        int32_t *next = ids;
        for (int t = 0; t < f->n_texts; next += n[t++]) {
            at[t] = next, n[t] = data->text[t].start[row + 1] - data->text[t].start[row];
            TRI_TRY(tri__dataset_ids(data, t, row, next));
        }
        if (f->n_numbers) TRI_TRY(tri__dataset_numbers(data, row, numbers));
        TRI_TRY(each(context, row, &(tri_stack_row){outputs + row * width, numbers, at, n}));
    }
    return TRI_OK;
}

typedef struct taking {
    tri_features *features;
    tri_status (*take)(void *context, int64_t row);
    void *context;
} taking;

static tri_status take_row(void *context, int64_t row, const tri_stack_row *of) {
    const taking *t = context;
    TRI_TRY(tri__features_take(t->features, of));
    return t->take(t->context, row);
}

tri_status tri__features_rows(tri_features *f, const tri_dataset *data, const float *outputs,
                              tri_status (*take)(void *context, int64_t row), void *context) {
    return read_rows(f, data, outputs, take_row, &(taking){f, take, context});
}

typedef struct counting {
    tri_features *features;
    int32_t *rows;          /* [BUCKETS] that have the term */
    double *sum, *squares;  /* [n_dense] */
    int64_t *n;
} counting;

static tri_status count_row(void *context, int64_t row, const tri_stack_row *of) {
    counting *c = context;
    tri_features *f = c->features;
    (void)row;
    TRI_TRY(tri__features_take(f, of));
    for (int d = 0; d < f->n_dense; d++)
        if (!isnan(f->dense[d]))
            c->n[d]++, c->sum[d] += (double)f->dense[d], c->squares[d] += (double)f->dense[d] * (double)f->dense[d];
    for (int t = 0; t < f->n_texts; t++) {
        int64_t n = take_text(f, t, of->ids[t], of->n_ids[t]);
        if (n < 0) return tri__fail(TRI_RESOURCE, "out of memory for the terms of a text");
        for (int64_t i = 0; i < n; i++)
            if (!i || f->bucket[i] != f->bucket[i - 1]) c->rows[f->bucket[i]]++;
    }
    return TRI_OK;
}

static int by_word(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Fills in `found` for the terms. */
static tri_status order_terms(tri_features *f) {
    TRI_TRY(TRI_NEW(f->found, f->n_terms + 1, "terms"));
    for (int i = 0; i < f->n_terms; i++) f->found[i] = (uint64_t)f->term[i] << 32 | (uint64_t)i;
    qsort(f->found, (size_t)f->n_terms, sizeof *f->found, by_word);
    f->n_sparse = f->n_categories + f->n_terms;
    return TRI_OK;
}

/* The most frequent terms; of equally frequent ones those of the lowest hashes. */
static tri_status choose_terms(tri_features *f, const int32_t *rows, int64_t all) {
    TRI_OWNED(tri__free_at) uint64_t *order = NULL;
    int64_t n = 0;
    TRI_TRY(TRI_NEW(order, BUCKETS, "terms"));
    for (uint64_t b = 0; b < BUCKETS; b++)
        if (rows[b] >= LEAST_ROWS) order[n++] = (uint64_t)(INT32_MAX - rows[b]) << 32 | b;
    qsort(order, (size_t)n, sizeof *order, by_word);
    f->n_terms = (int)(n < TRI_TERMS_MAX ? n : TRI_TERMS_MAX);
    TRI_TRY(TRI_NEW(f->term, f->n_terms + 1, "terms"));
    TRI_TRY(TRI_NEW(f->idf, f->n_terms + 1, "terms"));
    for (int i = 0; i < f->n_terms; i++) {
        f->term[i] = (uint32_t)order[i];
        f->idf[i] = (float)(log((1 + (double)all) / (1 + (double)rows[f->term[i]])) + 1);
    }
    return order_terms(f);
}

tri_status tri__features_fit(tri_features *f, const tri_dataset *data, const float *outputs) {
    TRI_OWNED(tri__free_at) int32_t *rows = NULL;
    TRI_OWNED(tri__free_at) double *sums = NULL;
    TRI_OWNED(tri__free_at) int64_t *n = NULL;
    TRI_TRY(TRI_NEW(rows, BUCKETS, "terms"));
    TRI_TRY(TRI_NEW(sums, 2 * f->n_dense, "features"));
    TRI_TRY(TRI_NEW(n, f->n_dense, "features"));
    TRI_TRY(read_rows(f, data, outputs, count_row, &(counting){f, rows, sums, sums + f->n_dense, n}));
    for (int d = 0; d < f->n_dense; d++) {
        double mean = n[d] ? sums[d] / (double)n[d] : 0,
               variance = n[d] ? sums[f->n_dense + d] / (double)n[d] - mean * mean : 0;
        f->mean[d] = mean, f->scale[d] = variance > 1e-12 ? 1 / sqrt(variance) : 1;
    }
    return choose_terms(f, rows, data->n);
}

/* ---- as JSON ---- */

static tri_json *list_of(const double *at, int n) {
    tri_json *list = tri__json_array();
    for (int i = 0; i < n; i++) tri__json_append_new(list, tri__json_real(at[i]));
    return list;
}

tri_json *tri__features_json(const tri_features *f) {
    tri_json *terms = tri__json_array(), *idf = tri__json_array();
    for (int i = 0; i < f->n_terms; i++) {
        tri__json_append_new(terms, tri__json_integer(f->term[i]));
        tri__json_append_new(idf, tri__json_real((double)f->idf[i]));
    }
    return tri__json_pack("{s:i, s:i, s:o, s:o, s:o, s:o}", "dense", f->n_dense, "categories", f->n_categories, "mean",
                          list_of(f->mean, f->n_dense), "scale", list_of(f->scale, f->n_dense), "terms", terms, "idf",
                          idf);
}

/* A list of exactly n finite numbers. */
static int take_list(const tri_json *list, int n, double *out) {
    if (!tri__json_is_array(list) || tri__json_size(list) != (size_t)n) return 0;
    tri__json_each(list, i, value) {
        out[i] = tri__json_number_value(value);
        if (!tri__json_is_number(value) || !isfinite(out[i])) return 0;
    }
    return 1;
}

tri_status tri__features_parse(const tri_json *object, const char *name, tri_features *f) {
    const tri_json *terms = tri__json_get(object, "terms");
    TRI_OWNED(tri__free_at) double *both = NULL;
    size_t n = tri__json_size(terms);
    int right = n <= TRI_TERMS_MAX && tri__whole_in(object, "categories") == f->n_categories;
    if (right) TRI_TRY(TRI_NEW(both, 2 * n + 1, "terms"));
    right = right && take_list(tri__json_get(object, "mean"), f->n_dense, f->mean) &&
            take_list(tri__json_get(object, "scale"), f->n_dense, f->scale) && take_list(terms, (int)n, both) &&
            take_list(tri__json_get(object, "idf"), (int)n, both + n);
    for (size_t i = 0; i < n && right; i++) right = both[i] >= 0 && both[i] < BUCKETS && both[i] == floor(both[i]);
    if (!right)
        return tri__fail(TRI_DATA, "%s: its features are not those of the model beside it: mean, scale, categories, terms "
                         "or idf are wrong", name);
    f->n_terms = (int)n;
    TRI_TRY(TRI_NEW(f->term, n + 1, "terms"));
    TRI_TRY(TRI_NEW(f->idf, n + 1, "terms"));
    for (size_t i = 0; i < n; i++) f->term[i] = (uint32_t)both[i], f->idf[i] = (float)both[n + i];
    return order_terms(f);
}
