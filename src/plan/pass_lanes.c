/* pass_lanes.c - passes: where a device works on two queues of kernels at once, each instruction gets its lane, and
 * those that must not overtake the other lane get their waits.
 *
 * An instruction waits for the last earlier one of the other lane that shares bytes with it, at least one of both
 * writing, unless its lane is behind that already. Waits of transfers and of copies need none: the transfer itself
 * begins behind its post. The waits are found twice by the same rule. Before the memory pass each slot has bytes of its
 * own: what values ask for, by which the memory pass knows what may run side by side. After it, slots lie where they
 * lie: gathered weights and buffers of transfers share memory between lanes, and may ask for more. */
#include "plan/plan.h"
#include "program/lane_order.h"

/* The lane of an instruction: 1 for the secondary encoder's, updates of its weights included. Of no unit: 0; but a
 * transfer of a microbatch's, of several units, has the lane of the instruction before it. */
static int lane_of(const tri_program *program, int index) {
    const tri_instr *instr = &program->instr[index];
    if (instr->unit >= 0) return tri__unit_encoder(program, instr->unit) == 1;
    if (instr->mb < 0 || tri__op_queue(instr->op) == TRI_QUEUE_COMPUTE || index == 0) return 0;
    return instr[-1].lane;
}

/* Sets the waits for slots that lie at `of`. behind [n_instrs], or NULL: the last instruction of the other lane that is
 * done before each; -1. */
static void find_waits(const tri_pass *pass, const tri_slot_bytes *of, int *behind) {
    tri_program *program = pass->program;
    tri_lane_order *order = tri__lane_order_open(pass->arena, program, of);
    for (int i = 0; i < program->n_instrs; i++) {
        tri_instr *instr = &program->instr[i];
        int other = tri__lane_order_missing(order, instr);
        TRI_ASSERT(other < 0 || !tri__ends(instr->op) || tri__begins(program->instr[other].op)); /* its own post */
        instr->await = tri__ends(instr->op) ? -1 : other;
        tri__lane_order_follow(order, instr->lane, other);
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
    find_waits(pass, apart(pass), pass->behind);
    return TRI_OK;
}

tri_status tri__pass_waits(tri_pass *pass) {
    const tri_program *program = pass->program;
    tri_slot_bytes *of = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *of);
    for (int s = 0; s < program->n_slots; s++) {
        int64_t begin = tri__slot_offset(program, s);
        of[s] = (tri_slot_bytes){program->slot[s].mem, begin,
                                 begin + tri__slot_bytes(&program->slot[s], &program->max)};
    }
    find_waits(pass, of, NULL);
    return TRI_OK;
}
