/* check_transfer.c - the checker's rules for transfers: groups exist, ends have the sizes of a rank's place. */
#include "program/check_parts.h"

enum { MOST_RANKS = 1 << 20 }; /* of a mesh: larger ones are refused */

/* The place of each member in its group. Along the axes alone it is linear in the member and in its run. `within` takes
 * it modulo a number, `across` divides it by one: it is then the same in all runs, or else it varies. */
static tri_linear place_of(tri_checker *c, const tri_attr *attr) {
    const tri_mesh *mesh = &c->program->mesh;
    const tri_check_members *of = &c->of;
    int rank = tri__check_rank(c, 0, 0), last = tri__check_rank(c, of->n - 1, 0), within = attr->within,
        across = attr->across;
    int at = tri__mesh_group_place(mesh, rank, attr->axes), at_last = tri__mesh_group_place(mesh, last, attr->axes);
    int in_last = tri__check_rank(c, 0, of->copies - 1), more = tri__mesh_group_place(mesh, in_last, attr->axes) - at;
    int each_run = of->copies > 1 ? more / (of->copies - 1) : 0;
    if (within && (at / within != at_last / within || each_run % within)) c->varies = 1;
    if (across && at / across != (at_last + more) / across) c->varies = 1;
    int place = tri__transfer_place(mesh, rank, attr), place_last = tri__transfer_place(mesh, last, attr);
    return (tri_linear){place, of->n > 1 ? (place_last - place) / (of->n - 1) : 0, within || across ? 0 : each_run};
}

/* Each member's shard of `count` elements among n. All shards are of equal size except the last ones: where those of
 * the first and the last members are equal, so are those between, and they are consecutive. */
static tri_linear_range shard_of(tri_checker *c, int64_t count, int n, tri_linear place) {
    int64_t last_member = c->of.n - 1, last_run = c->of.copies - 1;
    tri_range first = tri__shard(count, n, (int)place.at),
              last = tri__shard(count, n, (int)(place.at + place.each * last_member)),
              next = tri__shard(count, n, (int)(place.at + place.run * last_run)),
              end = tri__shard(count, n, (int)(place.at + place.each * last_member + place.run * last_run));
    int64_t size = tri__range_count(first);
    if (size != tri__range_count(last) || size != tri__range_count(next) || size != tri__range_count(end))
        c->varies = 1;
    tri_linear begin = {first.begin, last_member ? (last.begin - first.begin) / last_member : 0,
                    last_run ? (next.begin - first.begin) / last_run : 0};
    return (tri_linear_range){begin, tri__sum(begin, tri__fixed(size))};
}

int tri__check_own_part(tri_checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    if (!tri__is_post(instr->op) || instr->op == TRI_OP_all_to_all_post) return 0;
    tri_ends ends = tri__transfer_ends(instr);
    int whole = tri__transfer_whole(instr), part = whole == ends.y ? ends.x : ends.y;
    tri_linear_range outer = c->range[whole], inner = c->range[part];
    int64_t count = outer.end.at - outer.begin.at;
    tri_linear_range shard = {tri__fixed(0), tri__fixed(count)};
    if (c->root_of[whole] != c->root_of[part]) return 0;
    if (p->slot[whole].rows.sym != TRI_SYM_NONE && instr->op != TRI_OP_broadcast_post) return 0;
    if (instr->op != TRI_OP_broadcast_post)
        shard = shard_of(c, count, tri__transfer_size(&p->mesh, &instr->attr), place_of(c, &instr->attr));
    return tri__check_compare(c, inner.begin, tri__sum(outer.begin, shard.begin)) == 0 &&
           tri__check_compare(c, inner.end, tri__sum(outer.begin, shard.end)) == 0;
}

/* Whether a slot has the size of place `place`'s share of another, among n: a shard of one row, or an equal run of
 * counted rows. */
static int is_share(tri_checker *c, const tri_slot *whole, const tri_slot *part, int n, tri_linear place) {
    if (whole->rows.sym == TRI_SYM_NONE) {
        tri_linear_range shard = shard_of(c, whole->cols, n, place);
        return whole->rows.add == 1 && part->rows.add == 1 && part->rows.sym == TRI_SYM_NONE &&
               part->cols == shard.end.at - shard.begin.at;
    }
    return part->rows.sym == whole->rows.sym && part->rows.div == n * (whole->rows.div ? whole->rows.div : 1) &&
           !part->rows.add && !whole->rows.add && part->cols == whole->cols;
}

/* The first transfer in flight of an operation whose y is in a class; -1: none. */
static int in_flight(const tri_checker *c, tri_op op, tri_mem mem) {
    const tri_program *p = c->program;
    for (int i = 0; i < c->n_flights; i++)
        if (p->instr[c->flight[i].line].op == op && p->slot[c->flight[i].ends.y].mem == mem) return c->flight[i].line;
    return -1;
}

/* The control: a small record that the hosts of all ranks sum. */
static tri_status check_control(tri_checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    const tri_slot *record = &p->slot[instr->slot[TRI_ARG(control_post, y)]];
    if (tri__transfer_size(&p->mesh, &instr->attr) != tri__mesh_world(&p->mesh))
        return tri__defect(c, "%s is not exchanged among all ranks", record->name);
    int ordered = TRI_ORDERED_PARTS + TRI_SYM_COUNT * p->n_mb; /* columns of a server's order */
    if (record->mem != TRI_MEM_HOST || (record->cols != TRI_TOLD_COUNT && record->cols != ordered))
        return tri__defect(c, "%s is not a record in the host's memory", record->name);
    if (in_flight(c, TRI_OP_copy_post, TRI_MEM_KEPT) >= 0)
        return tri__defect(c, "it tells all ranks that copies of replicated state are complete, which are in flight");
    return TRI_OK;
}

/* Both ends of an exchange of all with all have a row for each member, or counted rows, of which each has an equal
 * run. */
static tri_status check_rows(tri_checker *c, tri_ends ends, int n) {
    const tri_slot *y = &c->program->slot[ends.y], *x = &c->program->slot[ends.x];
    for (int k = 0; k < 2; k++) {
        const tri_slot *slot = k ? x : y;
        int is_counted = slot->rows.sym != TRI_SYM_NONE && slot->rows.sym == y->rows.sym && !slot->rows.div &&
                         !slot->rows.add;
        if ((!is_counted && (slot->rows.sym != TRI_SYM_NONE || slot->rows.add != n)) || slot->cols != y->cols)
            return tri__defect(c, "%s does not have a row, as long as those of %s, for each member", slot->name,
                               y->name);
    }
    return TRI_OK;
}

/* The group exists, and both ends have the sizes of this rank's place in it. */
tri_status tri__check_post(tri_checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    const tri_attr *attr = &instr->attr;
    const tri_mesh *m = &p->mesh;
    if (m->pp < 1 || m->tp < 1 || m->dp < 1 || (double)m->pp * m->tp * m->dp > MOST_RANKS ||
        p->rank >= tri__mesh_world(m))
        return tri__defect(c, "the mesh has no such rank");
    int n = tri__transfer_size(m, attr);
    if (n == 0) return tri__defect(c, "the attributes do not name a group of ranks");
    if (attr->root < 0 || attr->root >= n) return tri__defect(c, "the group has no such place as root");
    tri_ends ends = tri__transfer_ends(instr);
    if (instr->op == TRI_OP_control_post) TRI_TRY(check_control(c, instr));
    int sums = tri__post_kind(instr->op) == TRI_ALL_REDUCE; /* all places have the same size */
    tri_linear place = sums ? tri__fixed(-1) : place_of(c, attr);
    int at_root = tri__check_compare(c, place, tri__fixed(attr->root)) == 0;
    if ((instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post) && at_root)
        return tri__defect(c, "a rank sends %s to itself", p->slot[tri__transfer_whole(instr)].name);
    if (instr->op == TRI_OP_broadcast_post && (ends.x >= 0) != at_root)
        return tri__defect(c, "x is given on another rank than the root");
    if (ends.x >= 0 && ends.y >= 0 && p->slot[ends.x].dtype != p->slot[ends.y].dtype)
        return tri__defect(c, "%s and %s differ in element type", p->slot[ends.y].name, p->slot[ends.x].name);
    if (instr->op == TRI_OP_all_to_all_post) return check_rows(c, ends, n);
    if (instr->op != TRI_OP_all_gather_post && instr->op != TRI_OP_reduce_scatter_post) return TRI_OK;
    int whole = tri__transfer_whole(instr), part = whole == ends.y ? ends.x : ends.y;
    if (!is_share(c, &p->slot[whole], &p->slot[part], n, place))
        return tri__defect(c, "%s is not this rank's shard of %s in size", p->slot[part].name, p->slot[whole].name);
    return TRI_OK;
}

/* A copy is from one memory to the other, or of what outlives the step into the class kept; of one type. */
tri_status tri__check_copy(tri_checker *c, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    const tri_slot *y = &c->program->slot[ends.y], *x = &c->program->slot[ends.x];
    int keeps = y->mem == TRI_MEM_KEPT;
    if (x->mem == TRI_MEM_KEPT || (keeps && !tri__mem_lasts(x->mem)))
        return tri__defect(c, "%s is copied to %s: only weights and optimizer state are replicated, and only there",
                           x->name, y->name);
    if (keeps && in_flight(c, TRI_OP_control_post, TRI_MEM_HOST) >= 0)
        return tri__defect(c, "%s is overwritten before all ranks have the copy of the step before", y->name);
    if (!keeps && (c->program->offload >> y->mem & 1) == (c->program->offload >> x->mem & 1))
        return tri__defect(c, "%s and %s are in the same memory", y->name, x->name);
    return y->dtype == x->dtype ? TRI_OK : tri__defect(c, "%s and %s differ in element type", y->name, x->name);
}

tri_status tri__check_wait(tri_checker *c, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    for (int i = 0; i < c->n_flights; i++) {
        if (c->flight[i].ends.y != ends.y || c->flight[i].ends.x != ends.x ||
            c->flight[i].copies != (instr->op == TRI_OP_copy_wait) ||
            !tri__same_gates(&c->program->instr[c->flight[i].line], instr))
            continue;
        c->post[c->line] = c->flight[i].line;
        c->flight[i] = c->flight[--c->n_flights];
        return TRI_OK;
    }
    return tri__defect(c, "no transfer of these slots is in flight");
}
