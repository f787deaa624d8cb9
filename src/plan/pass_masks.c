/* pass_masks.c - pass: attention keeps its dropout decisions as bits (layout/mask_bits.h), which its gradient reads
 * instead of drawing them again: attention_bits in the place of attention. Where attention is recomputed, it draws them
 * once more and its gradient reads those. */
#include "plan/pass.h"
#include "layout/mask_bits.h"

static int keeps(const tri_pass *pass, const tri_instr *instr) {
    return instr->op == TRI_OP_attention && instr->attr.p > 0 && TRI_SLOT(instr, attention, key) >= 0 &&
           instr->attr.max_len >= pass->in->target->mask_tokens;
}

static void keep(tri_builder *to, const tri_instr *instr) {
    int ctx = TRI_SLOT(instr, attention, ctx);
    const tri_slot like = to->program->slot[ctx];
    to->unit = like.unit;
    int bits = tri__build_slot(to, like.mem, TRI_I32, like.rows,
                               tri__mask_width(instr->attr.heads, instr->attr.max_len), "%s.mask", like.name);
    tri__build_as(to, instr);
    TRI_BUILD(to, attention_bits, instr->attr, ctx, TRI_SLOT(instr, attention, lse), bits,
              TRI_SLOT(instr, attention, qkv), TRI_SLOT(instr, attention, seq), TRI_SLOT(instr, attention, key));
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
