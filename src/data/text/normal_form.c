/* normal_form.c - NFD, NFC, NFKD and NFKC (Unicode Standard Annex 15), one starter and its marks at a time. Marks are
 * sorted by their combining class, stably: by insertion sort if they are few, by counting sort if a hostile text stacks
 * a million. */
#include "data/text/normalise.h"

#include "data/text/unicode.h"

/* Code points as code << 8 | combining class. */
typedef struct run {
    uint32_t *at;    /* [n], a starter, if any, and its marks */
    size_t n;
    tri_bytes *memory;
    char *out;
    size_t written;
    int compose;
} run;

enum { FEW = 16 };

static tri_status append(run *r, int32_t code, int order) {
    TRI_TRY(tri__bytes_room(r->memory, 2 * (r->n + 1) * sizeof *r->at)); /* twice: the second half is for sorting */
    r->at = (uint32_t *)(void *)r->memory->at;
    r->at[r->n++] = (uint32_t)code << 8 | (uint32_t)order;
    return TRI_OK;
}

static void sort_marks(uint32_t *mark, size_t n, uint32_t *spare) {
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            uint32_t moved = mark[i];
            size_t to = i;
            for (; to && (mark[to - 1] & 0xFF) > (moved & 0xFF); to--) mark[to] = mark[to - 1];
            mark[to] = moved;
        }
        return;
    }
    size_t place[257] = {0};
    for (size_t i = 0; i < n; i++) place[(mark[i] & 0xFF) + 1]++;
    for (int i = 0; i < 256; i++) place[i + 1] += place[i];
    for (size_t i = 0; i < n; i++) spare[place[mark[i] & 0xFF]++] = mark[i];
    memcpy(mark, spare, n * sizeof *mark);
}

/* Composes marks with the starter, unless a mark of the same or a higher class is in between. */
static void compose_marks(run *r) {
    size_t kept = 1;
    uint32_t last = 0;
    for (size_t i = 1; i < r->n; i++) {
        uint32_t order = r->at[i] & 0xFF;
        int32_t both = last < order ? tri__char_compose((int32_t)(r->at[0] >> 8), (int32_t)(r->at[i] >> 8)) : -1;
        if (both >= 0) {
            r->at[0] = (uint32_t)both << 8;
            continue;
        }
        last = order;
        r->at[kept++] = r->at[i];
    }
    r->n = kept;
}

static void finish_run(run *r) {
    if (r->n < 2) return;
    size_t starter = (r->at[0] & 0xFF) == 0;
    sort_marks(r->at + starter, r->n - starter, r->at + r->n);
    if (r->compose && starter) compose_marks(r);
}

static void flush(run *r) {
    for (size_t i = 0; i < r->n; i++)
        r->written += (size_t)tri__utf8_put((int32_t)(r->at[i] >> 8), r->out + r->written);
    r->n = 0;
}

static tri_status take(run *r, int32_t code) {
    int order = tri__char_combining(code);
    if (order) return append(r, code, order);
    finish_run(r);
    if (r->compose && r->n == 1 && (r->at[0] & 0xFF) == 0) {
        int32_t both = tri__char_compose((int32_t)(r->at[0] >> 8), code);
        if (both >= 0) {
            r->at[0] = (uint32_t)both << 8;
            return TRI_OK;
        }
    }
    flush(r);
    return append(r, code, 0);
}

size_t tri__normal_form(tri_norm_step form, const char *text, size_t length, tri_bytes *memory, char *out,
                        int *failed) {
    int compatibility = form == TRI_NORM_NFKD || form == TRI_NORM_NFKC;
    run r = {.memory = memory, .out = out, .compose = form == TRI_NORM_NFC || form == TRI_NORM_NFKC};
    for (size_t at = 0; at < length && !*failed;) {
        if ((unsigned char)text[at] < 0x80 && at + 1 < length &&
            (unsigned char)text[at + 1] < 0x80) { /* no mark follows */
            finish_run(&r);
            flush(&r);
            r.out[r.written++] = text[at++];
            continue;
        }
        int32_t code = tri__utf8_next(text, length, &at), part[TRI_DECOMPOSED];
        int parts = code < 0 ? 0 : code < 0x80 ? (part[0] = code, 1) : tri__char_decompose(code, compatibility, part);
        for (int i = 0; i < parts && !*failed; i++) *failed = take(&r, part[i]) != TRI_OK;
    }
    finish_run(&r);
    flush(&r);
    return r.written;
}
