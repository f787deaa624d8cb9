/* pass_context_place.c - pass: context parallelism: what differs between the ranks of a run, whose template is the same
 * (pass_context.c): which run of the inputs and of pooled rows is this rank's, which heads, and its neighbours in the
 * ring. */
#include "plan/pass.h"

/* Until here runs of keys and peers count from this rank on. */
static void place_run(const tri_program *program, tri_instr *instr, int cp, int place) {
    const tri_op_row *row = tri__instr_row(instr);
    switch (row->part) {
    case TRI_PART_TOKENS: /* ranks that share layers have runs of it */
        instr->attr.part += place * (program->slot[instr->slot[tri__row_run(row)]].rows.div / cp);
        return;
    case TRI_PART_KEYS:
        instr->attr.run = instr->attr.first ? 0 : place;
        instr->attr.part = (instr->attr.part + place) % cp;
        return;
    case TRI_PART_HEADS: instr->attr.part = place; return;
    case TRI_PART_NONE: case TRI_PART_ROWS: case TRI_PART_ALL: return;
    }
}

tri_status tri__pass_context_place(tri_pass *pass) {
    tri_program *program = pass->program;
    int cp = tri__mesh_cp(&pass->in->mesh), place = tri__mesh_context(&pass->in->mesh, pass->in->rank);
    size_t bytes = (size_t)program->n_instrs * sizeof *program->instr;
    program->instr = memcpy(tri__arena_alloc(pass->arena, bytes), program->instr, bytes); /* shared by all replicas */
    program->cap_instrs = program->n_instrs;
    for (int i = 0; i < program->n_instrs; i++) {
        tri_instr *instr = &program->instr[i];
        int pairs = instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post;
        place_run(program, instr, cp, place);
        if (pass->in->ring && pairs && instr->attr.within == cp) instr->attr.root = (instr->attr.root + place) % cp;
        if (!pass->in->ring && instr->attr.heads && tri__unit_encoder(program, instr->unit) >= 0)
            instr->attr.head0 = instr->attr.head0 * cp + place * instr->attr.heads;
    }
    return TRI_OK;
}
