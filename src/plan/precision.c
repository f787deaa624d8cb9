/* precision.c - pass: in fp32 no cast is needed; what remains is to refuse a program whose kernels the target lacks. */
#include "plan/plan.h"

tri_status tri__pass_precision(tri_pass *pass) {
    const tri_target *target = pass->in->target;
    for (int i = 0; i < pass->program->n_instrs; i++) {
        int op = pass->program->instr[i].op;
        if (tri__op_queue((tri_op)op) == TRI_QUEUE_COMPUTE && !target->has[op][TRI_F32])
            return tri__fail(TRI_USAGE, "device %s has no %s kernel for operation %s, which the model needs", target->name,
                             tri__dtype_name(TRI_F32), tri__op_row((tri_op)op)->name);
    }
    return TRI_OK;
}
