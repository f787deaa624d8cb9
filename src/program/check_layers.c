/* check_layers.c - proves that a closed layer is the identity: an instruction that runs only where a layer is closed
 * hands on what the open layer reads, as the value that the open layer writes; or sets gradients of weights to 0; or is
 * an instruction of the open layer that writes where the other adds. That later instructions find a value in both
 * cases, the dry runs prove (check.c). */
#include "program/check_parts.h"

typedef enum side { READS, WRITES } side;

/* Whether an instruction of the open layer, of the same microbatch, reads or writes a slot. */
static int open_uses(const tri_checker *c, const tri_instr *closed, int slot, side how) {
    const tri_program *p = c->program;
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        const tri_op_row *row = tri__instr_row(instr);
        for (int k = 0; k < row->n_args && instr->layer == -closed->layer && instr->mb == closed->mb; k++) {
            tri_access access = row->arg[k].access;
            int uses = how == READS ? tri__access_reads(access) || (instr->acc >> k & 1) : tri__access_writes(access);
            if (instr->slot[k] >= 0 && uses && c->root_of[instr->slot[k]] == c->root_of[slot]) return 1;
        }
    }
    return 0;
}

/* Whether the open layer has the same instruction, which may add where this one writes. */
static int has_twin(const tri_program *p, const tri_instr *closed) {
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        if (instr->layer == -closed->layer && instr->op == closed->op && instr->mb == closed->mb &&
            memcmp(instr->slot, closed->slot, sizeof instr->slot) == 0 &&
            memcmp(&instr->attr, &closed->attr, sizeof instr->attr) == 0)
            return 1;
    }
    return 0;
}

/* Copies and their waits move what others of the closed layer use; sums over ranks are not checked here. */
static int is_identity(const tri_checker *c, const tri_instr *instr) {
    if (instr->op == TRI_OP_skip)
        return open_uses(c, instr, instr->slot[1], READS) && open_uses(c, instr, instr->slot[0], WRITES);
    if (instr->op == TRI_OP_zero) {
        tri_mem mem = c->program->slot[instr->slot[0]].mem;
        return instr->attr.balance ? mem == TRI_MEM_RESULT : mem == TRI_MEM_GRAD || mem == TRI_MEM_STAGING;
    }
    if (instr->op == TRI_OP_copy_post || instr->op == TRI_OP_copy_wait) return 1;
    return has_twin(c->program, instr);
}

tri_status tri__check_layers(tri_checker *c) {
    const tri_program *p = c->program;
    for (c->line = 0; c->line < p->n_instrs; c->line++)
        if (p->instr[c->line].layer < 0 && !is_identity(c, &p->instr[c->line]))
            return tri__defect(c, "a closed layer would leave behind something else than its input");
    return TRI_OK;
}
