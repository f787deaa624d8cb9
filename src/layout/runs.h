/* runs.h - which rows of a run of tokens belong to a sequence: where each of several ranks has a run of all tokens.
 *
 * Plain: tokens are packed, and runs are equal cuts of them, wherever sequences begin.
 *
 * Rings of n ranks: each sequence is cut in n chunks of c = ceil(length / n) tokens, of which the last may have fewer,
 * and run r has chunk r of every sequence, so that ranks have equal work in attention. In all runs the chunk of
 * sequence s begins at row first(s) / n + s, first(s) being its first packed token: chunks fit, as
 * ceil(L / n) <= floor((a + L) / n) - floor(a / n) + 1, and where they begin follows from seq alone. Rows between them
 * belong to no sequence. */
#pragma once

#include "base/kernel_function.h"

#include <stdint.h>

/* Rows [begin, end) of a run; the first is token `place` of its sequence. */
typedef struct tri_run_rows {
    int64_t begin, end, place;
} tri_run_rows;

/* Rows of all n runs, each a multiple of granule / n. */
TRI_KERNEL_FUNCTION int64_t tri__ring_rows(int64_t tokens, int64_t sequences, int64_t n, int64_t granule) {
    int64_t rows = n * (tokens / n + sequences);
    return (rows + granule - 1) / granule * granule;
}

/* Sequence s in run `run` of a ring of n ranks. seq: first packed token of each sequence, and their end. */
TRI_KERNEL_FUNCTION tri_run_rows tri__ring_run(const int32_t *seq, int64_t s, int64_t run, int64_t n) {
    int64_t length = seq[s + 1] - seq[s], chunk = (length + n - 1) / n, begin = seq[s] / n + s, place = run * chunk;
    int64_t left = length - place, rows = left < 0 ? 0 : left < chunk ? left : chunk;
    tri_run_rows out = {begin, begin + rows, place};
    return out;
}

/* Sequence s in run `run`, of `rows` rows; ring: its ranks, 0: plain. */
TRI_KERNEL_FUNCTION tri_run_rows tri__run_of(const int32_t *seq, int64_t s, int64_t run, int64_t rows, int64_t ring) {
    if (ring) return tri__ring_run(seq, s, run, ring);
    int64_t begin = seq[s] - run * rows, end = seq[s + 1] - run * rows;
    int64_t first = begin < 0 ? 0 : begin < rows ? begin : rows, last = end < 0 ? 0 : end < rows ? end : rows;
    tri_run_rows out = {first, last, first - begin};
    return out;
}
