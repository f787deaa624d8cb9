/* pass_waits.c - pass: the waits of two queues of kernels once slots have their offsets: gathered weights and transfer
 * buffers reuse memory across lanes, and may need more waits than the data dependencies (pass_lanes.c). */
#include "plan/pass.h"

tri_status tri__pass_waits(tri_pass *pass) {
    const tri_program *program = pass->program;
    tri_slot_bytes *of = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *of);
    for (int s = 0; s < program->n_slots; s++) {
        int64_t begin = tri__slot_offset(program, s);
        of[s] = (tri_slot_bytes){program->slot[s].mem, begin,
                                 begin + tri__slot_bytes(&program->slot[s], &program->max)};
    }
    tri__find_waits(pass, of, NULL);
    return TRI_OK;
}
