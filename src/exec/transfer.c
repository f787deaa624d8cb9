/* transfer.c - posts and waits of programs as operations of the transport, or of the devices. */
#include "exec/transfer.h"

#include "comm/ops/request.h"

void tri__transfer_bind(tri_group_table *table, const tri_program *program, const tri_instr *post, void *y, void *x,
                        int64_t *counts, int number, tri_bound_transfer *out) {
    const tri_slot *whole = &program->slot[tri__transfer_whole(post)];
    const tri_named_group *entry = tri__group_find(table, &post->attr);
    *out = (tri_bound_transfer){.table = table, .group = entry->group,
                                .far = tri__on_host(post->op) ? NULL : entry->far, .root = post->attr.root,
                                .sized = whole, .number = number};
    out->what = (tri_collective){.kind = tri__post_kind(post->op), .dtype = whole->dtype,
                                 .reduction = post->attr.most ? TRI_MAX : TRI_SUM, .root = post->attr.root,
                                 .in = x ? x : y, .out = y};
    int receives = out->what.kind == TRI_RECV;
    if (entry->pair && (receives || out->what.kind == TRI_SEND)) {
        out->far = entry->pair[receives * tri_group_size(out->group) + post->attr.root];
        out->root = !receives; /* the sender is the first of the two */
    }
    if (post->op != TRI_OP_all_gather_post && post->op != TRI_OP_reduce_scatter_post) return;
    if (whole->rows.sym != TRI_SYM_NONE) { /* equal shares of rows, counted per microbatch */
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
    int64_t all = tri__slot_rows(transfer->sized, rows) * transfer->sized->cols;
    if (transfer->what.kind == TRI_ALL_TO_ALL) all /= tri_group_size(transfer->group); /* it counts one member's row */
    if (!transfer->what.counts) transfer->what.count = all;
    if (transfer->far) {
        tri_group_table *table = transfer->table;
        tri_collective what = transfer->what;
        TRI_TRY(tri__announce(transfer->group, &what));
        what.root = transfer->root;
        tri__groups_wait(table, 1);
        table->peers->post(table->context, transfer->far, &what, transfer->number);
        tri__groups_wait(table, 0);
        return TRI_OK;
    }
    return tri_post(transfer->group, &transfer->what, &transfer->request);
}

tri_status tri__transfer_wait(tri_world *world, tri_bound_transfer *transfer) {
    if (transfer->far) {
        transfer->table->peers->wait(transfer->table->context, transfer->number);
        return TRI_OK;
    }
    tri_request request = transfer->request;
    transfer->request = 0;
    return tri_wait(world, request);
}
