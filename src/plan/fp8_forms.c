/* fp8_forms.c - a value's forms in 8 bits, and the places of its scale and of its maximum. A value has a form in rows,
 * one in columns, or both, as products read it. It gets new slots where those there are may not be written yet, or be
 * gone: in a repeated forward, in steps of other kinds, behind another gate of a layer. */
#include "plan/fp8.h"

/* which: 0 s, 1 most. */
static int numbers(tri_fp8 *z, int which, int slot, int row, int n) {
    int K = TRI_FP8_KINDS * z->n_products, last = row + TRI_FP8_KINDS * (n - 1);
    int *view = &z->numbers[which][(n - 1) * K + row];
    const char *name = z->to.program->slot[slot].name;
    tri_builder at = z->to;
    at.unit = -1;
    if (*view >= 0) return *view;
    if (n == 1) return *view = tri__build_view(&at, slot, row, 1, 1, "%s.%d", name, row);
    return *view = tri__build_view(&at, slot, row, 1, last - row + 1, "%s.%d-%d", name, row, last);
}
int tri__fp8_scales(tri_fp8 *z, int row, int n) { return numbers(z, 0, z->s, row, n); }
int tri__fp8_most(tri_fp8 *z, int row, int n) { return numbers(z, 1, z->most, row, n); }

tri_fp8_form *tri__fp8_open(tri_fp8 *z, int slot, int i) {
    const tri_slot of = z->to.program->slot[slot];
    const tri_fp8_use *u = &z->use[slot];
    int is_again = i >= u->again;
    tri_dtype dtype = u->row % TRI_FP8_KINDS == TRI_FP8_GRADIENT ? TRI_F8_E5M2 : TRI_F8_E4M3;
    tri_mem mem = u->row % TRI_FP8_KINDS == TRI_FP8_WEIGHT ? TRI_MEM_GATHER : TRI_MEM_ACT;
    tri_fp8_form *made = &z->form[slot];
    const char *again = made->transposed >= 0 || (made->q >= 0 && !made->is_gathered) ? "/2" : "";
    int q = made->is_gathered ? made->q : -1;
    if (u->rows[is_again] && q < 0)
        q = tri__build_slot(&z->to, mem, dtype, of.rows, of.cols, "q.%s%s", of.name, again);
    *made = (tri_fp8_form){.q = q, .transposed = -1, .is_again = is_again, .is_gathered = made->is_gathered,
                           .gates = z->to.gates, .layer = z->to.layer};
    if (u->transposed[is_again])
        made->transposed = tri__build_slot(&z->to, mem, dtype, of.rows, of.cols, "t.%s%s", of.name, again);
    return made;
}

int tri__fp8_is_made(const tri_fp8 *z, int slot, int i) {
    const tri_fp8_form *f = &z->form[slot];
    int is_there = f->transposed >= 0 || (f->q >= 0 && !f->is_gathered);
    return is_there && f->is_again == (i >= z->use[slot].again) && f->gates == z->to.gates && f->layer == z->to.layer;
}
