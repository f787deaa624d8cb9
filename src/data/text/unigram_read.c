/* unigram_read.c - reads a Unigram vocabulary, and builds the trie of its pieces level by level. Memory is bounded by
 * the bytes of the pieces. */
#include "data/text/unigram.h"

enum { UNKNOWN_PENALTY = 10, MAX_POWER = 308 };

/* 10^power, rounded once; power is 0 to 308. */
static double power_of_ten(int power) { return strtod(TRI_TEXT(16, "1e%d", power), NULL); }

/* A number as serde_json reads it, which the library uses: the digits as a whole number, then one multiplication or
 * division by a power of ten. Its shortest digits are taken, which is how files are written. */
static double parse_as_library(double number) {
    char text[40];
    double magnitude = fabs(number), value;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, magnitude);
        if (strtod(text, NULL) == magnitude) break;
    }
    char *exponent = strchr(text, 'e');
    int power = atoi(exponent + 1), seen = 0;
    uint64_t whole = 0;
    while (exponent > text + 1 && (exponent[-1] < '1' || exponent[-1] > '9')) exponent--; /* zeros, and the point */
    for (const char *at = text; at < exponent; at++) {
        if (*at < '0' || *at > '9') continue;
        whole = whole * 10 + (uint64_t)(*at - '0');
        power -= seen++ > 0;
    }
    for (value = (double)whole; power < -MAX_POWER && value != 0; power += MAX_POWER) value /= power_of_ten(MAX_POWER);
    if (value != 0) value = power < 0 ? value / power_of_ten(-power) : value * power_of_ten(power);
    return number < 0 ? -value : value;
}

/* A piece, to be sorted. */
typedef struct entry {
    const unsigned char *text;
    uint32_t length;
    int32_t id;
} entry;

static int by_text(const void *a, const void *b) {
    const entry *x = a, *y = b;
    uint32_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Entries that begin with the bytes that lead to a node. */
typedef struct range {
    int32_t low, high;
} range;

static int32_t add_node(tri_unigram *model, range *ranges, unsigned char byte, range its) {
    ranges[model->nodes] = its;
    model->byte[model->nodes] = byte;
    model->id[model->nodes] = -1;
    return model->nodes++;
}

/* entries[n], sorted; ranges [nodes]. */
static void fill_trie(tri_unigram *model, const entry *entries, int32_t n, range *ranges) {
    uint32_t depth = 0;
    int32_t level = add_node(model, ranges, 0, (range){0, n}) + 1; /* where the nodes of this depth end */
    for (int32_t node = 0; node < model->nodes; node++) {
        if (node == level) depth++, level = model->nodes;
        range r = ranges[node];
        model->child[node] = model->nodes;
        if (entries[r.low].length == depth) model->id[node] = entries[r.low++].id;
        while (r.low < r.high) {
            unsigned char byte = entries[r.low].text[depth];
            int32_t end = r.low + 1;
            while (end < r.high && entries[end].text[depth] == byte) end++;
            int32_t child = add_node(model, ranges, byte, (range){r.low, end});
            if (!node) model->root[byte] = child;
            r.low = end;
        }
    }
    model->child[model->nodes] = model->nodes;
}

static tri_status build_trie(const char *path, const tri_vocabulary *vocabulary, tri_unigram *model) {
    size_t most = vocabulary->used + 1; /* nodes */
    TRI_OWNED(tri__free_at) entry *entries = malloc((size_t)vocabulary->n * sizeof *entries);
    TRI_OWNED(tri__free_at) range *ranges = malloc(most * sizeof *ranges);
    model->child = malloc((most + 1) * sizeof *model->child);
    model->byte = malloc(most);
    model->id = malloc(most * sizeof *model->id);
    int failed = !entries || !ranges || !model->child || !model->byte || !model->id;
    for (int32_t id = 0; id < vocabulary->n && !failed; id++)
        entries[id] = (entry){(const unsigned char *)vocabulary->text + vocabulary->start[id], vocabulary->length[id],
                              id};
    if (!failed) {
        qsort(entries, (size_t)vocabulary->n, sizeof *entries, by_text);
        fill_trie(model, entries, vocabulary->n, ranges);
    }
    return failed ? tri__fail(TRI_RESOURCE, "%s: out of memory for %d pieces", path, vocabulary->n) : TRI_OK;
}

static tri_status add_piece(const char *path, const tri_json *pair, int32_t id, int exact, tri_vocabulary *vocabulary,
                            tri_unigram *model) {
    const tri_json *text = tri__json_at(pair, 0), *score = tri__json_at(pair, 1);
    size_t length = tri__json_string_length(text);
    if (tri__json_size(pair) != 2 || !tri__json_is_string(text) || !tri__json_is_number(score))
        return tri__fail(TRI_DATA, "%s: id %d must be [piece, score]", path, id);
    const char *piece = tri__json_string_value(text);
    if (!length || length > TRI_UNIGRAM_BYTES)
        return tri__fail(TRI_DATA, "%s: id %d has a piece of %zu bytes; 1 to %d are accepted", path, id, length,
                         TRI_UNIGRAM_BYTES);
    int32_t before = tri__vocabulary_add(vocabulary, id, piece, length);
    if (before >= 0) return tri__fail(TRI_DATA, "%s: piece \"%.80s\" has ids %d and %d", path, piece, before, id);
    double value = tri__json_number_value(score);
    model->score[id] = exact || tri__json_is_integer(score) ? value : parse_as_library(value);
    if (isfinite(model->score[id])) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: the score of \"%.80s\" is not finite", path, piece);
}

tri_status tri__unigram_read_json(const char *path, const tri_json *pieces, int exact, tri_vocabulary *vocabulary,
                                  tri_unigram *out) {
    size_t n = tri__json_size(pieces), bytes = 0;
    *out = (tri_unigram){0};
    if (!tri__json_is_array(pieces) || !n)
        return tri__fail(TRI_DATA, "%s: the vocabulary must be an array of [piece, score] that is not empty", path);
    for (size_t i = 0; i < n; i++) bytes += tri__json_string_length(tri__json_at(tri__json_at(pieces, i), 0));
    tri_status status = tri__vocabulary_open(vocabulary, (int64_t)n, bytes, "");
    if (status != TRI_OK) return tri__fail_in(status, "%s", path);
    out->score = malloc(n * sizeof *out->score);
    if (!out->score) return tri__fail(TRI_RESOURCE, "%s: out of memory for %zu pieces", path, n);
    for (size_t i = 0; i < n; i++)
        TRI_TRY(add_piece(path, tri__json_at(pieces, i), (int32_t)i, exact, vocabulary, out));
    return build_trie(path, vocabulary, out);
}

tri_status tri__unigram_finish(const char *path, const tri_json *unknown, int byte_fallback,
                               const tri_vocabulary *vocabulary, tri_unigram *model) {
    tri_json_int id = tri__json_is_integer(unknown) ? tri__json_integer_value(unknown) : -1;
    if (id < 0 || id >= vocabulary->n)
        return tri__fail(TRI_DATA, "%s: unk_id must be an id of the vocabulary, 0 to %d", path, vocabulary->n - 1);
    double least = model->score[0];
    for (int32_t i = 1; i < vocabulary->n; i++) least = model->score[i] < least ? model->score[i] : least;
    model->unknown = (int32_t)id;
    model->unknown_score = least - UNKNOWN_PENALTY;
    model->byte_fallback = byte_fallback;
    for (int byte = 0; byte < 256 && byte_fallback; byte++) {
        model->byte_id[byte] = tri__vocabulary_named(vocabulary, TRI_TEXT(8, "<0x%02X>", byte));
    }
    return TRI_OK;
}

void tri__unigram_free(tri_unigram *model) {
    TRI_FREE(model->child, model->byte, model->id, model->score);
    *model = (tri_unigram){0};
}
