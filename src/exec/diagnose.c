/* diagnose.c - looks for the first value that is not finite. */
#include "exec/exec_parts.h"

/* Element i; those of other types are finite. */
static int is_finite_at(const void *data, tri_dtype dtype, int64_t i) {
    uint16_t infinite = dtype == TRI_BF16 ? 0x7F80 : 0x7C00;
    switch (dtype) {
    case TRI_F32: return isfinite(((const float *)data)[i]);
    case TRI_F64: return isfinite(((const double *)data)[i]);
    case TRI_BF16:
    case TRI_F16: return (((const uint16_t *)data)[i] & infinite) != infinite;
    default: return 1;
    }
}

static int is_finite(const tri_tensor *t, tri_dtype dtype) {
    int64_t i = 0, n = t->rows * t->cols;
    while (i < n && is_finite_at(t->data, dtype, i)) i++;
    return i == n;
}

/* is_finite for an operand in any memory. */
static tri_status look_at(tri_exec *exec, const tri_tensor *t, tri_dtype dtype, int *finite) {
    const tri_async *async = exec->device->async;
    *finite = 1;
    size_t bytes = (size_t)(t->rows * t->cols) * tri__dtype_bytes(dtype);
    if (!async || !bytes) {
        *finite = is_finite(t, dtype);
        return TRI_OK;
    }
    TRI_TRY(tri__exec_await(exec, 0));
    tri_tensor here = {malloc(bytes), t->rows, t->cols};
    if (!here.data) return tri__fail(TRI_RESOURCE, "out of memory to look for numbers that are not finite");
    tri_status status = async->copy(exec->context, here.data, t->data, bytes);
    if (status == TRI_OK) *finite = is_finite(&here, dtype);
    free(here.data);
    return status;
}

/* An update: all that it writes is weights and optimizer state. */
static int is_update(const tri_program *p, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    if (tri__row_arg(tri__instr_row(instr), "apply") < 0) return 0;
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0 || !tri__access_writes(row->arg[k].access)) continue;
        tri_mem mem = p->slot[instr->slot[k]].mem;
        if (mem != TRI_MEM_PARAM && mem != TRI_MEM_STATE && mem != TRI_MEM_STAGING) return 0;
    }
    return 1;
}

tri_status tri__exec_find_bad(tri_exec *exec, int program, uint32_t step, const tri_feed *feed, int *line, int *slot) {
    const tri_program *p = exec->program[program];
    *line = *slot = -1;
    if (exec->device->async) tri__exec_start(exec, program, 0, p->n_instrs, step, feed);
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_op_row *row = tri__instr_row(&p->instr[i]);
        if (!tri__exec_opens(exec, program, i, feed)) continue;
        if (is_update(p, &p->instr[i]) || tri__is_keeping(p, &p->instr[i])) continue;
        TRI_TRY(tri__exec_run_one(exec, program, i, step, feed));
        if (tri__begins(p->instr[i].op)) continue; /* checked at its wait */
        for (int k = 0; k < row->n_args && *line < 0; k++) {
            int at = p->instr[i].slot[k], finite = 1;
            if (at >= 0 && p->slot[at].mem != TRI_MEM_HOST) /* the control record was not computed by kernels */
                TRI_TRY(look_at(exec, &exec->bound[program][i].call.t[k], p->slot[at].dtype, &finite));
            if (!finite) *line = i, *slot = at;
        }
    }
    return exec->device->async ? tri__exec_await(exec, 1) : TRI_OK;
}
