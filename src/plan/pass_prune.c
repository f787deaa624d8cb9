/* pass_prune.c - pass: omits optional outputs that nothing reads, such as those that only a backward pass needs. */
#include "plan/pass.h"

tri_status tri__pass_prune(tri_pass *pass) {
    tri_program *program = pass->program;
    uint8_t *read = tri__arena_alloc(pass->arena, (size_t)program->n_slots);
    for (int i = 0; i < program->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (tri__reads(&program->instr[i], k)) read[program->instr[i].slot[k]] = 1;
    for (int i = 0; i < program->n_instrs; i++) {
        tri_instr *instr = &program->instr[i];
        const tri_op_row *row = tri__instr_row(instr);
        for (int k = 0; k < row->n_args; k++)
            if (instr->slot[k] >= 0 && row->arg[k].optional && row->arg[k].access == TRI_ACCESS_W &&
                !read[instr->slot[k]])
                instr->slot[k] = -1;
    }
    return TRI_OK;
}
