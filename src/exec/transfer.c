/* transfer.c - posts and waits of programs as operations of the transport, or of the devices themselves. */
#include "exec/transfer.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    const tri_attr *x = &((const struct tri_group_entry *)a)->attr, *y = &((const struct tri_group_entry *)b)->attr;
    if (x->axes != y->axes) return x->axes < y->axes ? -1 : 1;
    if (x->within != y->within) return x->within - y->within;
    return x->across - y->across;
}

static struct tri_group_entry *find(const tri_group_table *table, const tri_attr *attr) {
    const struct tri_group_entry key = {.attr = *attr};
    for (int i = 0; i < table->n; i++)
        if (compare(&table->entry[i], &key) == 0) return &table->entry[i];
    return NULL;
}

static int count_posts(const tri_program *program) {
    int n = 0;
    for (int i = 0; i < program->n_instrs; i++) n += tri__is_post(program->instr[i].op);
    return n;
}

static void list_groups(const tri_program *program, tri_group_table *out) {
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_attr *attr = &program->instr[i].attr;
        if (tri__is_post(program->instr[i].op) && !find(out, attr))
            out->entry[out->n++].attr = (tri_attr){.axes = attr->axes, .within = attr->within, .across = attr->across};
    }
}

/* The devices' own group of the same members: its first member names it, and the transport tells the others. */
static tri_status join_far(tri_group_table *table, struct tri_group_entry *entry) {
    char name[TRI_GROUP_NAME] = "";
    if (!table->apart) return TRI_OK;
    int me = tri_group_rank(entry->group);
    if (me == 0) TRI_TRY(table->apart->name(table->context, name));
    TRI_TRY(tri_broadcast(entry->group, name, TRI_GROUP_NAME, TRI_U8, 0));
    return table->apart->join(table->context, name, tri_group_size(entry->group), me, &entry->far);
}

tri_status tri__groups_make(tri_world *world, const tri_program *const *programs, int n, tri_group_table *out) {
    const tri_program *p = programs[0];
    int posts = 0;
    for (int i = 0; i < n; i++) posts += count_posts(programs[i]);
    if (!posts) return TRI_OK;
    if (!world || tri_world_size(world) != tri__mesh_world(&p->mesh) || tri_world_rank(world) != p->rank)
        return tri__fail(TRI_INTERNAL, "a program of rank %d of %d was given to rank %d of %d", p->rank, tri__mesh_world(&p->mesh),
                         world ? tri_world_rank(world) : 0, world ? tri_world_size(world) : 1);
    int *ranks = malloc((size_t)tri_world_size(world) * sizeof *ranks);
    out->entry = calloc((size_t)posts, sizeof *out->entry);
    if (!ranks || !out->entry) {
        free(ranks);
        return tri__fail(TRI_RESOURCE, "out of memory for groups of ranks");
    }
    for (int i = 0; i < n; i++) list_groups(programs[i], out);
    qsort(out->entry, (size_t)out->n, sizeof *out->entry, compare);
    tri_status status = TRI_OK;
    for (int i = 0; i < out->n && status == TRI_OK; i++) {
        int size = tri__transfer_members(&p->mesh, p->rank, &out->entry[i].attr, ranks);
        status = tri_group_make(world, size, ranks, &out->entry[i].group);
        if (status == TRI_OK) status = join_far(out, &out->entry[i]);
    }
    free(ranks);
    return status;
}

void tri__groups_free(tri_group_table *table, int abort) {
    for (int i = 0; i < table->n && table->apart; i++) table->apart->leave(table->context, table->entry[i].far, abort);
    free(table->entry);
    *table = (tri_group_table){0};
}

void tri__transfer_bind(const tri_group_table *table, const tri_program *program, const tri_instr *post, void *y, void *x, int64_t *counts,
                        int number, tri_bound_transfer *out) {
    const tri_slot *whole = &program->slot[tri__transfer_whole(post)];
    const struct tri_group_entry *entry = find(table, &post->attr);
    *out = (tri_bound_transfer){.table = table, .group = entry->group, .far = entry->far, .sized = whole, .number = number};
    out->what = (tri_collective){.kind = tri__post_kind(post->op), .dtype = whole->dtype, .reduction = TRI_SUM, .root = post->attr.root,
                                 .in = x ? x : y, .out = y};
    if (post->op != TRI_OP_all_gather_post && post->op != TRI_OP_reduce_scatter_post) return;
    if (whole->rows.sym != TRI_SYM_NONE) { /* equal runs of rows, known when a microbatch is bound */
        tri_ends ends = tri__transfer_ends(post);
        out->sized = &program->slot[post->op == TRI_OP_all_gather_post ? ends.x : ends.y];
        return;
    }
    int n = tri_group_size(out->group);
    for (int k = 0; k < n; k++) {
        tri_range shard = tri__shard(whole->cols, n, k);
        counts[k] = shard.end - shard.begin;
    }
    out->what.counts = counts;
}

tri_status tri__transfer_post(tri_bound_transfer *transfer, const tri_counts *rows) {
    if (!transfer->what.counts) transfer->what.count = tri__slot_rows(transfer->sized, rows) * transfer->sized->cols;
    if (transfer->far) {
        transfer->table->apart->post(transfer->table->context, transfer->far, &transfer->what, transfer->number);
        return TRI_OK;
    }
    return tri_post(transfer->group, &transfer->what, &transfer->request);
}

tri_status tri__transfer_wait(tri_world *world, tri_bound_transfer *transfer) {
    if (transfer->far) {
        transfer->table->apart->wait(transfer->table->context, transfer->number);
        return TRI_OK;
    }
    tri_request request = transfer->request;
    transfer->request = 0;
    return tri_wait(world, request);
}
