/* pass_turns.c - pass: where a device runs two queues of kernels concurrently, interleaves the encoders in the program,
 * unit by unit, so that kernels of one fill the gaps of the other.
 *
 * Both orders are correct, since the encoders are independent; this one queues both from the beginning, and their
 * gradients are sent to other replicas as they complete. Which lane an instruction goes to: pass_lanes.c. */
#include "plan/pass.h"

int tri__unit_encoder(const tri_program *program, int unit) {
    for (int branch = 0; branch < 2 && unit >= 0; branch++) {
        size_t length = strlen(tri__branch_name(branch));
        if (strncmp(program->unit[unit], tri__branch_name(branch), length) == 0 && program->unit[unit][length] == '.')
            return branch;
    }
    return -1;
}

/* Moves inputs of [begin, end) to its beginning: an encoder may need an input that is in a unit of the other. */
static int inputs_first(const tri_program *program, const tri_instr *from, int begin, int end) {
    int n = begin;
    for (int i = begin; i < end; i++)
        if (from[i].op == TRI_OP_input) program->instr[n++] = from[i];
    return n;
}

/* Interleaves a run of encoders' instructions, one unit of each encoder at a time. */
static void take_turns(const tri_program *program, const tri_instr *from, int begin, int end) {
    int next[2] = {begin, begin}, n = inputs_first(program, from, begin, end),
        turn = tri__unit_encoder(program, from[begin].unit);
    for (; n < end; turn = !turn) {
        int unit = -1;
        for (int *i = &next[turn]; *i < end; ++*i) {
            if (tri__unit_encoder(program, from[*i].unit) != turn || from[*i].op == TRI_OP_input) continue;
            if (unit >= 0 && from[*i].unit != unit) break;
            unit = from[*i].unit;
            program->instr[n++] = from[*i];
        }
    }
}

tri_status tri__pass_turns(tri_pass *pass) {
    tri_program *program = pass->program;
    size_t bytes = (size_t)program->n_instrs * sizeof *program->instr;
    tri_instr *from = memcpy(tri__arena_alloc(pass->arena, bytes), program->instr, bytes);
    for (int begin = 0, end; begin < program->n_instrs; begin = end) {
        for (end = begin; end < program->n_instrs && tri__unit_encoder(program, from[end].unit) >= 0;) end++;
        if (end > begin) take_turns(program, from, begin, end);
        else end++;
    }
    return TRI_OK;
}
