/* pass_masks.c - pass: attention keeps its dropout decisions as bits (layout/mask_bits.h), which its gradient reads
 * instead of drawing them again: attr.mask. Where attention is recomputed, it draws them once more and its gradient
 * reads those. */
#include "plan/pass.h"
#include "layout/mask_bits.h"

static int keeps(const tri_pass *pass, const tri_instr *instr) {
    tri_attr attr = instr->attr;
    attr.mask = 1;
    return instr->op == TRI_OP_attention && tri__variant(TRI_OP_attention, &attr) >= 0 && attr.p > 0 &&
           TRI_SLOT(instr, attention, key) >= 0 && attr.max_len >= pass->in->target->mask_tokens;
}

static void keep(tri_builder *to, const tri_instr *instr) {
    int ctx = TRI_SLOT(instr, attention, ctx);
    const tri_slot like = to->program->slot[ctx];
    to->unit = like.unit;
    int bits = tri__build_slot(to, like.mem, TRI_I32, like.rows,
                               tri__mask_width(instr->attr.heads, instr->attr.max_len), "%s.mask", like.name);
    tri_instr *made = tri__build_copy(to, instr);
    made->attr.mask = 1, TRI_SLOT(made, attention, bits) = bits;
}

tri_status tri__pass_masks(tri_pass *pass) {
    int n;
    const tri_instr *from = tri__take_instrs(pass->program, &n);
    tri_builder to = {.arena = pass->arena, .program = pass->program};
    for (int i = 0; i < n; i++) {
        if (keeps(pass, &from[i])) keep(&to, &from[i]);
        else tri__build_copy(&to, &from[i]);
    }
    return TRI_OK;
}
