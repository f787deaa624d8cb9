/* bpe_merges.c - reads merges. Each must join two pieces into a third, all in the vocabulary, and no two may be equal:
 * so merging always lengthens pieces, and terminates. */
#include "data/text/bpe.h"

#include "data/text/pre_tokenize.h"

typedef struct span {
    const char *at;
    size_t n;
} span;

/* For "%.*s": truncated if long. */
#define SHOWN(piece) (int)((piece).n < 80 ? (piece).n : 80), (piece).at

static tri_status open_model(tri_bpe *model, const char *path, int64_t merges, int byte_level,
                             const tri_vocabulary *vocabulary) {
    *model = (tri_bpe){.byte_level = byte_level, .unknown = -1};
    if (merges > TRI_LIMIT_VOCABULARY)
        return tri__fail(TRI_DATA, "%s: %lld merges; at most %d are read", path, (long long)merges,
                         TRI_LIMIT_VOCABULARY);
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)merges) slots *= 2;
    model->mask = slots - 1;
    model->merge = malloc(slots * sizeof *model->merge);
    if (!model->merge) return tri__fail(TRI_RESOURCE, "%s: out of memory for %lld merges", path, (long long)merges);
    memset(model->merge, 0xFF, slots * sizeof *model->merge);
    for (int byte = 0; byte < 256 && byte_level; byte++) {
        char utf8[4];
        size_t bytes = (size_t)tri__utf8_put(tri__byte_level_char((unsigned char)byte), utf8);
        model->byte_id[byte] = tri__vocabulary_find(vocabulary, utf8, bytes, tri__piece_hash(utf8, bytes));
    }
    return TRI_OK;
}

void tri__bpe_free(tri_bpe *model) {
    free(model->merge);
    *model = (tri_bpe){0};
}

static tri_status find_piece(const tri_vocabulary *vocabulary, span piece, int32_t *id) {
    *id = tri__vocabulary_find(vocabulary, piece.at, piece.n, tri__piece_hash(piece.at, piece.n));
    return *id >= 0 ? TRI_OK : tri__fail(TRI_DATA, "\"%.*s\" is not a piece of the vocabulary", SHOWN(piece));
}

/* Adds the next merge. The caller adds its position to the message. */
static tri_status add_merge(tri_bpe *model, const tri_vocabulary *vocabulary, span left, span right) {
    int32_t ids[2], whole = -1;
    if (!left.n || !right.n) return tri__fail(TRI_DATA, "a merge takes two pieces that are not empty");
    TRI_TRY(find_piece(vocabulary, left, &ids[0]));
    TRI_TRY(find_piece(vocabulary, right, &ids[1]));
    span both = {.n = left.n + right.n};
    char *joined = both.n > vocabulary->longest ? NULL : malloc(both.n);
    if (joined) {
        memcpy(joined, left.at, left.n);
        memcpy(joined + left.n, right.at, right.n);
        whole = tri__vocabulary_find(vocabulary, joined, both.n, tri__piece_hash(joined, both.n));
        free(joined);
    } else if (both.n <= vocabulary->longest) {
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    if (whole < 0)
        return tri__fail(TRI_DATA, "\"%.*s\" and \"%.*s\" do not make a piece of the vocabulary", SHOWN(left),
                         SHOWN(right));
    tri_merge *merge = tri__merge_find(model, ids[0], ids[1]);
    if (merge->left >= 0)
        return tri__fail(TRI_DATA, "\"%.*s\" and \"%.*s\" are merged already, by merge %d", SHOWN(left), SHOWN(right),
                         merge->rank + 1);
    *merge = (tri_merge){ids[0], ids[1], model->n++, whole};
    return TRI_OK;
}

/* "left right", with exactly one blank. */
static tri_status add_text(tri_bpe *model, const tri_vocabulary *vocabulary, span line) {
    const char *blank = memchr(line.at, ' ', line.n);
    size_t n = blank ? (size_t)(blank - line.at) : line.n;
    span right = blank ? (span){blank + 1, line.n - n - 1} : (span){0};
    if (!blank || memchr(right.at, ' ', right.n))
        return tri__fail(TRI_DATA, "\"%.*s\" should be two pieces with a blank between them", SHOWN(line));
    return add_merge(model, vocabulary, (span){line.at, n}, right);
}

tri_status tri__bpe_read_lines(const char *path, const char *text, size_t size, int byte_level,
                               const tri_vocabulary *vocabulary, tri_bpe *out) {
    int64_t lines = 1, line = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    TRI_TRY(open_model(out, path, lines, byte_level, vocabulary));
    for (size_t start = 0, end; start < size; start = end + 1) {
        const char *feed = memchr(text + start, '\n', size - start);
        end = feed ? (size_t)(feed - text) : size;
        span it = {text + start, end - start};
        if (it.n && it.at[it.n - 1] == '\r') it.n--;
        line++;
        if (it.n >= 8 && !memcmp(it.at, "#version", 8)) continue;
        tri_status status = add_text(out, vocabulary, it);
        if (status != TRI_OK) return tri__fail_in(status, "%s:%lld", path, (long long)line);
    }
    return TRI_OK;
}

static tri_status add_json(tri_bpe *model, const tri_vocabulary *vocabulary, const tri_json *merge) {
    if (tri__json_is_string(merge))
        return add_text(model, vocabulary, (span){tri__json_string_value(merge), tri__json_string_length(merge)});
    const tri_json *left = tri__json_at(merge, 0), *right = tri__json_at(merge, 1);
    if (tri__json_size(merge) != 2 || !tri__json_is_string(left) || !tri__json_is_string(right))
        return tri__fail(TRI_DATA, "a merge should be \"left right\" or [\"left\", \"right\"]");
    return add_merge(model, vocabulary, (span){tri__json_string_value(left), tri__json_string_length(left)},
                     (span){tri__json_string_value(right), tri__json_string_length(right)});
}

tri_status tri__bpe_read_json(const char *path, const tri_json *merges, int byte_level,
                              const tri_vocabulary *vocabulary, tri_bpe *out) {
    *out = (tri_bpe){0};
    if (!tri__json_is_array(merges)) return tri__fail(TRI_DATA, "%s: model.merges must be an array", path);
    TRI_TRY(open_model(out, path, (int64_t)tri__json_size(merges), byte_level, vocabulary));
    tri__json_each(merges, i, merge) {
        tri_status status = add_json(out, vocabulary, merge);
        if (status != TRI_OK) return tri__fail_in(status, "%s: merge %zu", path, i + 1);
    }
    return TRI_OK;
}
