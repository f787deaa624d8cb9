/* pack_half.c - panels of bf16 matrices for the product kernels: what is whole and in order goes the kernel's fast way,
 * the rest number by number. */
#include "device/cpu/fast/gemm_half.h"

#include <string.h>

static int64_t listed(const int32_t *list, int64_t i) { return list ? list[i] : i; }

/* From k = `begin` on; rows of `from` are rows of the panel. */
static void pack_rows(const tri_half_panel *p, int width, int group, int64_t begin, uint16_t *to) {
    to += begin * width;
    for (int64_t at = begin; at < p->padded; at += group)
        for (int i = 0; i < width; i++, to += group) {
            const uint16_t *row = p->from + (i < p->n ? listed(p->list, i) : 0) * p->ld + at;
            int whole = i < p->n && at + group <= p->k;
            if (whole && group == 2) memcpy(to, row, 4);
            else if (whole && group == 4) memcpy(to, row, 8);
            else if (whole) memcpy(to, row, (size_t)group * sizeof *to);
            else
                for (int c = 0; c < group; c++) to[c] = i < p->n && at + c < p->k ? row[c] : 0;
        }
}

/* The same where columns of `from` are rows of the panel. */
static void pack_columns(const tri_half_panel *p, int width, int group, int64_t begin, uint16_t *to) {
    to += begin * width;
    for (int64_t at = begin; at < p->padded; at += group, to += width * group)
        for (int c = 0; c < group; c++) {
            const uint16_t *row = p->from + (at + c < p->k ? listed(p->list, at + c) : 0) * p->ld;
            int64_t exist = at + c < p->k ? p->n : 0;
            for (int i = 0; i < width; i++) to[i * group + c] = i < exist ? row[i] : 0;
        }
}

void tri__half_pack(const tri_half_product *kernel, const tri_half_panel *p, uint16_t *to) {
    int width = p->is_b ? kernel->nr : kernel->mr, group = p->is_b ? kernel->b_group : kernel->a_group;
    int64_t done = 0;
    tri_half_pack *fast = p->turned ? p->is_b ? kernel->b_columns : kernel->a_columns
                          : p->is_b ? kernel->b_rows : kernel->a_rows;
    if (fast && p->n == width && !p->list) {
        fast(p->k / kernel->step, p->from, p->ld, to);
        done = p->k / kernel->step * kernel->step;
    }
    (p->turned ? pack_columns : pack_rows)(p, width, group, done, to);
}
