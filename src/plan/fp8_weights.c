/* fp8_weights.c - forms of weights in 8 bits. The weights of a unit are made together, before the first product
 * that reads one of them: one instruction has four, as many as a layer has. Those that were gathered in 8 bits are only
 * transposed.
 *
 * The update does not write them. Its runs are flat, across weights, and a transposed copy is written in tiles; and
 * bytes that outlive a step would be state: to be prepared when a run starts and wherever else weights change. */
#include "plan/fp8.h"

/* Casts n weights, or parts of them, to q and transposed (NULL: not). */
static void append_casts(tri_fp8 *z, int n, int row, const int *q, const int *transposed, const int *x) {
    int slots[TRI_MAX_ARGS] = TRI_NO_SLOTS;
    for (int k = 0; k < n; k++) {
        slots[TRI_ARG(fp8_cast_weights, qa) + k] = q[k], slots[TRI_ARG(fp8_cast_weights, a) + k] = x[k];
        if (transposed) slots[TRI_ARG(fp8_cast_weights, ta) + k] = transposed[k];
    }
    slots[TRI_ARG(fp8_cast_weights, most)] = tri__fp8_most(z, row, n);
    slots[TRI_ARG(fp8_cast_weights, s)] = tri__fp8_scales(z, row, n);
    tri__build(&z->to, TRI_OP_fp8_cast_weights, slots, (tri_attr){0});
}

static void append_transposes(tri_fp8 *z, int n, const int *from, const int *to) {
    int slots[TRI_MAX_ARGS] = TRI_NO_SLOTS;
    for (int k = 0; k < n; k++) slots[TRI_ARG(fp8_turn, ta) + k] = to[k], slots[TRI_ARG(fp8_turn, a) + k] = from[k];
    tri__build(&z->to, TRI_OP_fp8_turn, slots, (tri_attr){0});
}

/* How many of n rows of history, from the first on, are those of products in a row: one instruction has them. */
static int count_together(const int *row, int n) {
    int k = 1;
    while (k < n && k < TRI_FP8_AT_ONCE && row[k] == row[k - 1] + TRI_FP8_KINDS) k++;
    return k;
}

void tri__fp8_cast_parts(tri_fp8 *z, int n, const int *row, const int *q, const int *x) {
    for (int k = 0, m; k < n; k += m) {
        m = count_together(row + k, n - k);
        append_casts(z, m, row[k], q + k, NULL, x + k);
    }
}

/* Whether a slot with a weight is in the same memory as `like`, and instruction i may make its forms, too. */
static int is_beside(const tri_fp8 *z, int slot, int like, int i) {
    const tri_program *program = z->to.program;
    if (tri__slot_root(program, slot) != tri__slot_root(program, like)) return 0;
    if (!tri__same_gates(z->use[slot].first, &z->from[i]) || tri__fp8_is_made(z, slot, i)) return 0;
    return !z->form[slot].is_gathered || z->use[slot].transposed[0];
}

void tri__fp8_make_weights(tri_fp8 *z, int slot, int i) {
    const tri_param *param = z->pass->model->param;
    int unit = param[z->weight[z->use[slot].row / TRI_FP8_KINDS]].unit, is_gathered = z->form[slot].is_gathered, n = 0;
    size_t most = (size_t)z->n_products * sizeof(int);
    int *row = tri__arena_alloc(z->pass->arena, most), *q = tri__arena_alloc(z->pass->arena, most),
        *transposed = tri__arena_alloc(z->pass->arena, most), *x = tri__arena_alloc(z->pass->arena, most);
    for (int p = 0; p < z->n_products; p++) {
        int w = param[z->weight[p]].unit == unit ? z->first_slot[p] : -1;
        while (w >= 0 && !is_beside(z, w, slot, i)) w = z->next_slot[w];
        if (w < 0) continue;
        const tri_fp8_form *f = tri__fp8_open(z, w, i);
        row[n] = TRI_FP8_KINDS * p, q[n] = f->q, transposed[n] = f->transposed, x[n++] = w;
    }
    for (int k = 0, m; k < n; k += m) {
        m = count_together(row + k, n - k);
        if (is_gathered) append_transposes(z, m, q + k, transposed + k);
        else append_casts(z, m, row[k], q + k, transposed + k, x + k);
    }
}
