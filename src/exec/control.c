/* control.c - the record that ranks sum every step, over the hosts' transport. */
#include "exec/exec_parts.h"

void tri__exec_bring_record(const tri_bound *control, const tri_feed *feed) {
    const tri_tensor *y = &control->call.t[TRI_ARG(control_post, y)]; /* [1, K] f64 */
    const double *told = feed->field[TRI_FIELD_control];
    if (told) memcpy(y->data, told, (size_t)y->cols * sizeof *told);
    else memset(y->data, 0, (size_t)y->cols * sizeof *told);
}

int tri__exec_control_of(const tri_program *program) {
    for (int i = 0; i < program->n_instrs; i++)
        if (program->instr[i].op == TRI_OP_control_post) return i;
    return -1;
}

tri_status tri__exec_control(tri_exec *exec, int program, const tri_feed *feed) {
    int post = tri__exec_control_of(exec->program[program]);
    TRI_ASSERT(post >= 0 && tri__runs_always(&exec->program[program]->instr[post]));
    TRI_TRY(tri__exec_run_one(exec, program, post, 0, feed));
    return tri__exec_run_one(exec, program, tri__transfer_wait_of(exec->program[program], post), 0, feed);
}
