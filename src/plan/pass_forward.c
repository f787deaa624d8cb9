/* pass_forward.c - pass: the model writes its single-device operation list. */
#include "plan/pass.h"
#include "plan/layer_gates.h"
#include "plan/step_kinds.h"

/* Nothing reads the last layer's other rows, unless all are pooled. With sequence parallelism ranks cannot split these
 * few rows: each would compute the norms' gradients from all of them, and the sum over ranks would be wrong. */
static int makes_first_rows(const tri_pass *pass) {
    int shares_tokens = pass->in->mesh.tp > 1 && pass->in->sequence_parallel;
    return pass->model->pooling != TRI_POOLING_MEAN && !shares_tokens;
}

tri_status tri__pass_forward(tri_pass *pass) {
    tri_program *program = tri__program_new(pass->arena, pass->training ? "trimodal train" : "trimodal infer");
    program->mesh = pass->in->mesh;
    program->rank = pass->in->rank;
    program->max = pass->training ? pass->in->max : pass->in->max_infer;
    program->max.shortest[0] = program->max.shortest[1] = 0;
    if (pass->training) tri__step_kinds_set(&pass->in->optimizer, program);
    if (pass->training) TRI_TRY(tri__layer_gates_set(pass->arena, &pass->in->layer_drop, pass->in->model, program));
    pass->forward = (tri_forward){.build = {.arena = pass->arena, .program = program, .mb = 0}, .model = pass->model,
                                  .training = pass->training, .loss_form = pass->in->loss,
                                  .first_rows = makes_first_rows(pass)};
    tri__model_forward(&pass->forward);
    pass->program = program;
    pass->out = (tri_planned){.param = pass->forward.unit_slot, .loss = pass->forward.loss,
                              .probs = pass->forward.probs, .experts = -1, .norm = -1, .apply = -1, .scale = -1};
    if (pass->in->quantize != TRI_F32) tri__mark_quantized(pass);
    return pass->in->fp8 && pass->training ? tri__mark_fp8(pass) : TRI_OK;
}
