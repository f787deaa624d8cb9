/* pack_half.c - panels of bf16 matrices for the product kernels: the kernel's own way, or number by number where a list
 * says which rows they have. */
#include "device/cpu/fast/product/gemm_half.h"

#include <string.h>

/* Rows of `from` are rows of the panel. */
static void listed_rows(const tri_half_panel *p, int width, int group, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += group)
        for (int i = 0; i < width; i++, to += group) {
            const uint16_t *row = p->from + (i < p->n ? p->list[i] : 0) * p->ld + at;
            if (i < p->n && at + group <= p->k) memcpy(to, row, (size_t)group * sizeof *to);
            else
                for (int c = 0; c < group; c++) to[c] = i < p->n && at + c < p->k ? row[c] : 0;
        }
}

/* Columns of `from` are. */
static void listed_columns(const tri_half_panel *p, int width, int group, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += group, to += width * group)
        for (int c = 0; c < group; c++) {
            const uint16_t *row = p->from + (at + c < p->k ? p->list[at + c] : 0) * p->ld;
            int64_t exist = at + c < p->k ? p->n : 0;
            for (int i = 0; i < width; i++) to[i * group + c] = i < exist ? row[i] : 0;
        }
}

void tri__half_pack(const tri_half_product *kernel, const tri_half_panel *p, uint16_t *to) {
    int width = p->is_b ? kernel->nr : kernel->mr, group = p->is_b ? kernel->b_group : kernel->a_group;
    if (p->list) (p->transposed ? listed_columns : listed_rows)(p, width, group, to);
    else if (p->transposed) (p->is_b ? kernel->b_columns : kernel->a_columns)(p, to);
    else (p->is_b ? kernel->b_rows : kernel->a_rows)(p, to);
}
