/* micro.c - packs rows one after the other, without padding between them. */
#include "data/dataset/micro.h"

#include "base/status.h"

#include <string.h>

void *tri__carve(char *base, size_t *at, size_t bytes) {
    void *here = base ? base + *at : NULL;
    *at += (bytes + 63) & ~(size_t)63;
    return here;
}

/* Tokens rounded up to the granule. */
static int64_t rounded(const tri_micro_spec *spec, int64_t tokens) {
    int64_t granule = spec->granule > 1 ? spec->granule : 1;
    return (tokens + granule - 1) / granule * granule;
}

void tri__micro_carve(const tri_micro_spec *spec, char *base, size_t *at, tri_micro *out) {
    size_t rows = (size_t)spec->rows;
    tri_micro micro = {0};
    for (int t = 0; t < spec->n_texts; t++) {
        size_t tokens = (size_t)rounded(spec, spec->tokens[t]);
        micro.ids[t] = tri__carve(base, at, tokens * sizeof *micro.ids[t]);
        micro.pos[t] = tri__carve(base, at, tokens * sizeof *micro.pos[t]);
        micro.key[t] = tri__carve(base, at, 2 * tokens * sizeof *micro.key[t]);
        micro.seq[t] = tri__carve(base, at, (rows + 1) * sizeof *micro.seq[t]);
    }
    if (spec->n_columns)
        micro.numbers = tri__carve(base, at, rows * (size_t)spec->n_columns * sizeof *micro.numbers);
    micro.labels = tri__carve(base, at, rows * sizeof *micro.labels);
    micro.keyn = tri__carve(base, at, 2 * rows * sizeof *micro.keyn);
    micro.row = tri__carve(base, at, rows * sizeof *micro.row);
    if (base) *out = micro;
}

void tri__micro_clear(const tri_micro_spec *spec, tri_micro *micro) {
    micro->n = 0;
    for (int t = 0; t < spec->n_texts; t++) micro->tokens[t] = 0, micro->squares[t] = 0, micro->seq[t][0] = 0;
}

int32_t *tri__micro_ids(const tri_micro_spec *spec, const tri_micro *micro, int text, int64_t length) {
    TRI_ASSERT(micro->tokens[text] + length <= spec->tokens[text]);
    return micro->ids[text] + micro->tokens[text];
}

void tri__micro_text(const tri_micro_spec *spec, tri_micro *micro, int text, int64_t length, int64_t row) {
    int64_t at = micro->tokens[text];
    int32_t next = spec->position_base[text], pad = next - 1; /* -1 is not a token's id */
    for (int64_t i = 0; i < length; i++) {
        micro->pos[text][at + i] = micro->ids[text][at + i] == pad ? pad : next++;
        micro->key[text][2 * (at + i)] = (int32_t)row;
        micro->key[text][2 * (at + i) + 1] = (int32_t)i;
    }
    micro->tokens[text] = at + length;
    micro->seq[text][micro->n + 1] = (int32_t)(at + length);
    micro->squares[text] += (double)length * (double)length;
}

float *tri__micro_numbers(const tri_micro_spec *spec, const tri_micro *micro) {
    TRI_ASSERT(micro->n < spec->rows);
    return spec->n_columns ? micro->numbers + micro->n * spec->n_columns : NULL;
}

void tri__micro_row(const tri_micro_spec *spec, tri_micro *micro, int64_t row, int32_t label) {
    TRI_ASSERT(micro->n < spec->rows);
    micro->labels[micro->n] = label;
    micro->keyn[2 * micro->n] = (int32_t)row;
    micro->keyn[2 * micro->n + 1] = 0;
    micro->row[micro->n++] = row;
}

void tri__micro_pad(const tri_micro_spec *spec, tri_micro *micro) {
    for (int t = 0; t < spec->n_texts; t++) {
        int64_t at = micro->tokens[t];
        size_t more = (size_t)(rounded(spec, at) - at);
        memset(micro->ids[t] + at, 0, more * sizeof *micro->ids[t]);
        memset(micro->pos[t] + at, 0, more * sizeof *micro->pos[t]);
        memset(micro->key[t] + 2 * at, 0, 2 * more * sizeof *micro->key[t]);
    }
}
