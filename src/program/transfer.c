/* transfer.c - groups, ends and volumes of transfers. */
#include "program/transfer.h"

enum { PAGE = 4096 }; /* shared memory is allocated in pages */

int tri__is_post(tri_op op) {
    return tri__op_queue(op) == TRI_QUEUE_COMM && !tri__op_is_lowered(op) && op != TRI_OP_wait;
}

int tri__begins(tri_op op) { return tri__is_post(op) || op == TRI_OP_copy_post; }

int tri__ends(tri_op op) { return op == TRI_OP_wait || op == TRI_OP_copy_wait; }

tri_collective_kind tri__post_kind(tri_op op) {
    switch (op) {
    case TRI_OP_all_reduce_post:
    case TRI_OP_control_post: return TRI_ALL_REDUCE;
    case TRI_OP_all_gather_post: return TRI_ALL_GATHER;
    case TRI_OP_reduce_scatter_post: return TRI_REDUCE_SCATTER;
    case TRI_OP_all_to_all_post: return TRI_ALL_TO_ALL;
    case TRI_OP_broadcast_post: return TRI_BROADCAST;
    case TRI_OP_send_post: return TRI_SEND;
    case TRI_OP_recv_post: return TRI_RECV;
    default: break;
    }
    TRI_ASSERT(!"not a post");
    return TRI_COLLECTIVE_COUNT;
}

int tri__on_host(tri_op op) { return op == TRI_OP_control_post; }

static int end_of(const tri_instr *instr, const char *name) {
    int k = tri__row_arg(tri__instr_row(instr), name);
    return k < 0 ? -1 : instr->slot[k];
}

tri_ends tri__transfer_ends(const tri_instr *instr) {
    return (tri_ends){.y = end_of(instr, "y"), .x = end_of(instr, "x")};
}

/* Whether instruction `wait` waits for instruction `post`. */
static int belong(const tri_program *program, int post, int wait) {
    const tri_instr *a = &program->instr[post], *b = &program->instr[wait];
    if (!tri__begins(a->op) || b->op != (a->op == TRI_OP_copy_post ? TRI_OP_copy_wait : TRI_OP_wait)) return 0;
    if (!tri__same_gates(a, b)) return 0;
    tri_ends x = tri__transfer_ends(a), y = tri__transfer_ends(b);
    return x.y == y.y && x.x == y.x;
}

int tri__transfer_wait_of(const tri_program *program, int post) {
    for (int i = post + 1; i < program->n_instrs; i++)
        if (belong(program, post, i)) return i;
    return -1;
}

int tri__transfer_post_of(const tri_program *program, int wait) {
    for (int i = wait - 1; i >= 0; i--)
        if (belong(program, i, wait)) return i;
    return -1;
}

int tri__transfer_whole(const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    return instr->op == TRI_OP_reduce_scatter_post || ends.y < 0 ? ends.x : ends.y;
}

int tri__transfer_size(const tri_mesh *mesh, const tri_attr *attr) {
    if (!attr->axes || attr->axes >= TRI_AXIS_SET(TRI_AXIS_COUNT) || attr->within < 0 || attr->across < 0) return 0;
    if (attr->within && attr->across) return 0;
    int all = tri__mesh_group_size(mesh, attr->axes), part = attr->within ? attr->within : attr->across;
    if (part && (part > all || all % part)) return 0;
    return attr->within ? attr->within : attr->across ? all / attr->across : all;
}

int tri__transfer_place(const tri_mesh *mesh, int rank, const tri_attr *attr) {
    int place = tri__mesh_group_place(mesh, rank, attr->axes);
    return attr->within ? place % attr->within : attr->across ? place / attr->across : place;
}

int tri__transfer_members(const tri_mesh *mesh, int rank, const tri_attr *attr, int *ranks) {
    int n = tri__transfer_size(mesh, attr), place = tri__mesh_group_place(mesh, rank, attr->axes);
    int first = attr->within ? place / attr->within * attr->within : attr->across ? place % attr->across : 0;
    for (int i = 0; i < n; i++)
        ranks[i] = tri__mesh_group_rank(mesh, rank, attr->axes, first + i * (attr->across ? attr->across : 1));
    return n;
}

unsigned tri__program_shared(const tri_program *program) {
    unsigned shared = 0;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        if (tri__op_queue(instr->op) != TRI_QUEUE_COMM) continue;
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (instr->slot[k] >= 0) shared |= 1u << program->slot[instr->slot[k]].mem;
    }
    return shared & ~program->offload & ~(1u << TRI_MEM_HOST);
}

double tri__transfer_sent(const tri_program *program, const tri_instr *post, const tri_counts *counts) {
    double n = tri__transfer_size(&program->mesh, &post->attr);
    double whole = (double)tri__slot_bytes(&program->slot[tri__transfer_whole(post)], counts);
    if (post->op == TRI_OP_send_post) return whole;
    if (post->op == TRI_OP_recv_post) return 0;
    double share = (n - 1) / n;
    return whole * share * (tri__post_kind(post->op) == TRI_ALL_REDUCE ? 2 /* a scatter and a gather */ : 1);
}

void tri__kind_sent(const tri_program *program, uint32_t kind, double *bytes) {
    const tri_open_gates now = {.kind = kind};
    for (int collective = 0; collective < TRI_COLLECTIVE_COUNT; collective++) bytes[collective] = 0;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        if (tri__is_post(instr->op) && tri__is_open(instr, &now))
            bytes[tri__post_kind(instr->op)] +=
                tri__layer_share(program, instr) * tri__transfer_sent(program, instr, &program->max);
    }
}

void tri__program_sent(const tri_program *program, double *bytes) {
    uint32_t kind[TRI_GATE_COUNT];
    double one[TRI_COLLECTIVE_COUNT];
    int n = tri__program_kinds(program, kind);
    for (int collective = 0; collective < TRI_COLLECTIVE_COUNT; collective++) bytes[collective] = 0;
    for (int i = 0; i < n; i++) {
        tri__kind_sent(program, kind[i], one);
        for (int collective = 0; collective < TRI_COLLECTIVE_COUNT; collective++)
            bytes[collective] += tri__kind_share(program, kind[i]) * one[collective];
    }
}
