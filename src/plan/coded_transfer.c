/* coded_transfer.c - the legs of a coded transfer: their slots and instructions. */
#include "plan/coded_transfer.h"

static const char *name_of(const tri_builder *to, const tri_coded_transfer *t) {
    return to->program->slot[t->whole].name;
}

tri_coded_transfer tri__coded_open(const tri_builder *to, tri_code code, tri_attr group, int part) {
    const tri_program *program = to->program;
    int n = tri__transfer_size(&program->mesh, &group);
    return (tri_coded_transfer){.code = code,
                                .group = {.axes = group.axes, .within = group.within, .across = group.across},
                                .n = n, .place = tri__transfer_place(&program->mesh, program->rank, &group),
                                .row = tri__coded_row(code, program->slot[part].cols, n), .part = part,
                                .error = -1, .error_sum = -1, .apply = -1};
}

static void post(tri_builder *to, tri_coded_transfer *t, tri_coded_leg leg, tri_op op, tri_attr group, tri_ends ends) {
    tri_instr *instr = tri__build(to, op, (const int[TRI_MAX_ARGS]){ends.y, ends.x}, group);
    const char *name = to->program->slot[tri__transfer_whole(instr)].name;
    /* codes of one size would meet otherwise */
    if (t->code != TRI_CODE_NONE) name = tri__arena_print(to->arena, "%s %s", tri__code_name(t->code), name);
    instr->attr.id = tri__random_id(name);
    t->ends = ends, t->leg = leg;
}

static void pack(tri_builder *to, const tri_coded_transfer *t, int q, int error, int x) {
    TRI_BUILD(to, pack, ((tri_attr){.code = (int32_t)t->code}), q, error, x, -1, -1, t->apply);
}

static void begin_sum(tri_builder *to, tri_coded_transfer *t) {
    tri_rows rows = {.add = t->n};
    tri_ends ends;
    if (t->code == TRI_CODE_NONE) {
        post(to, t, TRI_LEG_SUM, TRI_OP_reduce_scatter_post, t->group, (tri_ends){t->own, t->part});
        return;
    }
    ends.x = tri__build_slot(to, TRI_MEM_COMM, TRI_U8, rows, t->row, "q.%s", name_of(to, t));
    ends.y = tri__build_slot(to, TRI_MEM_COMM, TRI_U8, rows, t->row, "r.%s", name_of(to, t));
    pack(to, t, ends.x, t->error, t->part);
    post(to, t, TRI_LEG_SUM, TRI_OP_all_to_all_post, t->group, ends);
}

static void begin_gather(tri_builder *to, tri_coded_transfer *t) {
    if (t->code == TRI_CODE_NONE) {
        post(to, t, TRI_LEG_GATHER, TRI_OP_all_gather_post, t->group, (tri_ends){t->part, t->own});
        return;
    }
    int all = TRI_BUILD_FLAT(to, TRI_MEM_COMM, TRI_U8, t->n * t->row, "s.%s", name_of(to, t));
    int own = tri__build_view(to, all, t->place * t->row, 1, t->row, "s.%s.own", name_of(to, t));
    pack(to, t, own, t->error_sum, t->own);
    post(to, t, TRI_LEG_GATHER, TRI_OP_all_gather_post, t->group, (tri_ends){all, own});
}

static void decode_gathered(tri_builder *to, const tri_coded_transfer *t) {
    int rows = tri__build_view(to, t->ends.y, 0, t->n, t->row, "s.%s.rows", name_of(to, t));
    TRI_BUILD(to, unpack, ((tri_attr){.code = (int32_t)t->code}), t->part, rows);
}

void tri__coded_begin(tri_builder *to, tri_coded_transfer *t, int sums) {
    if (!sums) begin_gather(to, t);
    else if (!t->within.axes) begin_sum(to, t);
    else post(to, t, TRI_LEG_WITHIN, TRI_OP_reduce_scatter_post, t->within, (tri_ends){t->part, t->whole});
}

tri_coded_leg tri__coded_end(tri_builder *to, const tri_coded_transfer *t) {
    tri__build_wait(to, t->ends);
    if (t->code != TRI_CODE_NONE && t->leg == TRI_LEG_SUM)
        TRI_BUILD(to, unpack, ((tri_attr){.code = (int32_t)t->code, .sums = 1}), t->own, t->ends.y, t->apply);
    if (t->code != TRI_CODE_NONE && t->leg == TRI_LEG_GATHER) decode_gathered(to, t);
    return t->leg;
}

void tri__coded_next(tri_builder *to, tri_coded_transfer *t) {
    if (t->leg == TRI_LEG_WITHIN) begin_sum(to, t);
    else if (t->leg == TRI_LEG_SUM && t->gathers) begin_gather(to, t);
    else if (t->leg == TRI_LEG_GATHER && t->within.axes)
        post(to, t, TRI_LEG_SPREAD, TRI_OP_all_gather_post, t->within, (tri_ends){t->whole, t->part});
    else t->leg = TRI_LEG_DONE;
}
