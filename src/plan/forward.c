/* forward.c - pass: the model writes its single-device operation list. */
#include "plan/plan.h"

void tri__pass_forward(tri_pass *pass, int training) {
    tri_program *program = tri__program_new(pass->arena, training ? "trimodal train" : "trimodal infer");
    program->mesh = pass->in->mesh;
    program->rank = pass->in->rank;
    pass->forward = (tri_forward){.build = {.arena = pass->arena, .program = program, .mb = 0},
                                  .model = pass->model,
                                  .training = training};
    tri__model_forward(&pass->forward);
    pass->program = program;
    pass->out = (tri_planned){.program = program,
                              .param = pass->forward.unit_slot,
                              .loss = pass->forward.loss,
                              .probs = pass->forward.probs,
                              .norm = -1,
                              .apply = -1,
                              .scale = -1};
}
