/* pass_lanes.c - pass: where a device runs two queues of kernels concurrently, assigns each instruction a lane and
 * adds the waits that keep conflicting instructions of the two lanes in order.
 *
 * An instruction waits for the last earlier one of the other lane that shares bytes with it, at least one of them
 * writing, unless its lane is already behind that one. Waits for transfers and copies need none: the transfer itself
 * begins after its post. The waits are derived twice by the same rule. Before the memory pass no two slots share bytes:
 * these are the data dependencies, from which the memory pass knows what may run concurrently. After it slots have
 * their offsets (pass_waits.c). */
#include "plan/pass.h"

/* Full recomputation is chosen to save memory: two open layers take 15 % more. */
int tri__plan_lanes(const tri_plan_in *in) {
    return in->target->lanes > 1 && in->mesh.pp == 1 && in->model->n_encoders > 1 &&
           in->recompute != TRI_RECOMPUTE_FULL;
}

/* The lane of an instruction: 1 for the secondary encoder's, including updates of its weights; 0 for those without a
 * unit, except that a microbatch's transfer of several units has the lane of the instruction before it. */
static int lane_of(const tri_program *program, int index) {
    const tri_instr *instr = &program->instr[index];
    if (instr->unit >= 0) return tri__unit_encoder(program, instr->unit) == 1;
    if (instr->mb < 0 || tri__op_queue(instr->op) == TRI_QUEUE_COMPUTE || index == 0) return 0;
    return instr[-1].lane;
}

void tri__find_waits(const tri_pass *pass, const tri_slot_bytes *of, int *behind) {
    tri_program *program = pass->program;
    tri_lane_order *order = tri__lane_order_open(pass->arena, program, of);
    for (int i = 0; i < program->n_instrs; i++) {
        tri_instr *instr = &program->instr[i];
        int other = tri__lane_order_missing(order, instr);
        TRI_ASSERT(other < 0 || !tri__ends(instr->op) || tri__begins(program->instr[other].op)); /* its own post */
        instr->await = tri__ends(instr->op) ? -1 : other;
        if (!tri__ends(instr->op) || tri__runs_always(instr)) tri__lane_order_follow(order, instr->lane, other);
        tri__lane_order_add(order, instr, i);
        if (behind) behind[i] = tri__lane_order_behind(order, instr->lane);
    }
}

/* As if no two slots shared memory. */
static tri_slot_bytes *apart(const tri_pass *pass) {
    const tri_program *program = pass->program;
    tri_slot_bytes *of = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *of);
    int64_t end = 0;
    for (int s = 0; s < program->n_slots; s++) {
        const tri_slot *slot = &program->slot[s];
        int64_t bytes = tri__slot_bytes(slot, &program->max),
                begin = slot->parent < 0 ? end
                                         : of[slot->parent].begin +
                                               slot->parent_at * (int64_t)tri__dtype_bytes(slot->dtype);
        of[s] = (tri_slot_bytes){0, begin, begin + bytes};
        if (slot->parent < 0) end += bytes;
    }
    return of;
}

tri_status tri__pass_lanes(tri_pass *pass) {
    tri_program *program = pass->program;
    for (int i = 0; i < program->n_instrs; i++) program->instr[i].lane = lane_of(program, i);
    pass->behind = tri__arena_alloc(pass->arena, (size_t)program->n_instrs * sizeof *pass->behind);
    tri__find_waits(pass, apart(pass), pass->behind);
    return TRI_OK;
}
