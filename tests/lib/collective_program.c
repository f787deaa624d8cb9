/* collective_program.c - see collective_program.h. */
#include "tests/lib/collective_program.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRAM_MEMBERS = 8, PROGRAM_AT_ONCE = 12 };

typedef struct program_operation {
    tri_collective what;
    tri_request request;
    char *block;               /* holds input and output */
    size_t out_bytes;          /* of the result on this rank, at what.out */
    int64_t counts[PROGRAM_MEMBERS];
    int from_heap;
} program_operation;

static uint64_t program_mix(uint64_t x) {
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

void program_fill(tri_dtype dtype, void *data, int64_t count, uint64_t seed) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = program_mix(seed + (uint64_t)i * 0x100000001B3u);
        double value = ((double)(bits >> 11) / 9007199254740992.0 - 0.5) * 4;
        float single = (float)value;
        uint32_t word;
        memcpy(&word, &single, 4);
        switch (dtype) {
        case TRI_F32: ((float *)data)[i] = single; break;
        case TRI_F64: ((double *)data)[i] = value; break;
        case TRI_BF16: ((uint16_t *)data)[i] = (uint16_t)(word >> 16); break;
        case TRI_F16: ((uint16_t *)data)[i] = (uint16_t)((bits & 0x83FF) | 0x3800); break; /* 0.5 to 1, either sign */
        case TRI_I32: ((int32_t *)data)[i] = (int32_t)bits; break;
        case TRI_I64: ((int64_t *)data)[i] = (int64_t)bits; break;
        default: ((uint8_t *)data)[i] = (uint8_t)bits; break;
        }
    }
}

/* Fills in operation number k of a group, the same on all members except for buffers. */
static tri_status program_prepare(tri_group *group, tri_world *world, int k, program_operation *op) {
    static const int64_t size[] = {1, 7, 300, 5000, 40001};
    int n = tri_group_size(group), me = tri_group_rank(group), kinds = TRI_COLLECTIVE_COUNT - TRI_BROADCAST;
    uint64_t dice = program_mix((uint64_t)k * 77 + 5);
    tri_collective *what = &op->what;
    *op = (program_operation){.from_heap = dice >> 20 & 1};
    what->kind = (tri_collective_kind)(TRI_BROADCAST + k % kinds);
    what->dtype = (tri_dtype)(dice % TRI_DTYPE_COUNT);
    what->reduction = (tri_reduction)((dice >> 8) % TRI_REDUCTION_COUNT);
    what->root = (int)((dice >> 16) % (uint64_t)n);
    what->count = size[k / kinds % 5];
    int uneven = what->kind >= TRI_ALL_GATHER && what->kind <= TRI_REDUCE_SCATTER && dice >> 21 & 1,
        in_place = dice >> 22 & 1;
    int64_t all = 0, before = 0;
    for (int m = 0; m < n; m++) {
        op->counts[m] = uneven ? what->count * ((m * 5 + k) % 4) / 2 : what->count; /* zero for some */
        if (m < me) before += op->counts[m];
        all += op->counts[m];
    }
    size_t bytes = tri__dtype_bytes(what->dtype),
           most = (size_t)(what->kind == TRI_ALL_TO_ALL ? n * what->count : all + what->count);
    size_t room = (most * bytes + 64) / 64 * 64;
    if (op->from_heap) {
        tri_status status = tri_heap_alloc(world, 2 * room, (void **)&op->block);
        if (status != TRI_OK) return status;
    } else if (!(op->block = calloc(2, room))) {
        return TRI_RESOURCE;
    }
    char *from = op->block, *to = op->block + room;
    int64_t mine = op->counts[me], in = what->count, out = what->count;
    int root = me == what->root;
    switch (what->kind) {
    case TRI_REDUCE: out = root ? out : 0; break;
    case TRI_ALL_GATHER: in = mine, out = all; break;
    case TRI_GATHER: in = mine, out = root ? all : 0; break;
    case TRI_SCATTER: in = root ? all : 0, out = mine; break;
    case TRI_REDUCE_SCATTER: in = all, out = mine; break;
    case TRI_ALL_TO_ALL: in = out = n * what->count; break;
    case TRI_BARRIER: in = out = what->count = 0; break;
    case TRI_BROADCAST: in = root ? in : 0; break;
    default: break;
    }
    if (in_place && (what->kind == TRI_ALL_REDUCE || what->kind == TRI_ALL_TO_ALL)) to = from;
    if (in_place && (what->kind == TRI_ALL_GATHER || (what->kind == TRI_GATHER && root)))
        from = to + (size_t)before * bytes;
    if (in_place && (what->kind == TRI_REDUCE_SCATTER || (what->kind == TRI_SCATTER && root)))
        to = from + (size_t)before * bytes;
    what->in = in ? from : NULL;
    what->out = out ? to : NULL;
    what->counts = uneven ? op->counts : NULL;
    op->out_bytes = (size_t)out * bytes;
    if (in) program_fill(what->dtype, (void *)what->in, in, program_mix((uint64_t)(k * 64 + tri_world_rank(world))));
    return TRI_OK;
}

static void program_end(tri_world *world, program_operation *op, uint64_t *digest) {
    for (size_t i = 0; i < op->out_bytes; i++)
        *digest = (*digest ^ ((unsigned char *)op->what.out)[i]) * 0x100000001B3u;
    if (op->from_heap) tri_heap_free(world, op->block);
    else free(op->block);
}

/* `n` operations from number `first` on, PROGRAM_AT_ONCE in flight, waited for in another order than posted. */
static tri_status program_on(tri_world *world, tri_group *group, int first, int n, uint64_t *digest) {
    program_operation op[PROGRAM_AT_ONCE];
    for (int done = 0; done < n; done += PROGRAM_AT_ONCE) {
        int now = n - done < PROGRAM_AT_ONCE ? n - done : PROGRAM_AT_ONCE;
        for (int i = 0; i < now; i++) {
            tri_status status = program_prepare(group, world, first + done + i, &op[i]);
            if (status == TRI_OK) status = tri_post(group, &op[i].what, &op[i].request);
            if (status != TRI_OK) return status;
        }
        for (int i = 0; i < now; i++) {
            int at = (i * 5 + 3) % now; /* each one once, if 5 does not divide `now` */
            tri_status status = tri_wait(world, op[now % 5 ? at : i].request);
            if (status != TRI_OK) return status;
        }
        for (int i = 0; i < now; i++) program_end(world, &op[i], digest);
    }
    return TRI_OK;
}

/* Sends of several sizes around the ring of a group, all posted before the first wait. */
static tri_status program_ring(tri_world *world, tri_group *group, uint64_t *digest) {
    static const int64_t size[] = {0, 3, 500, 3000, 70001};
    int n = tri_group_size(group), me = tri_group_rank(group);
    tri_request request[10];
    float *in[5], *out[5];
    tri_status status = TRI_OK;
    for (int i = 0; i < 5 && status == TRI_OK; i++) {
        in[i] = calloc((size_t)size[i] + 1, sizeof(float));
        out[i] = calloc((size_t)size[i] + 1, sizeof(float));
        program_fill(TRI_F32, in[i], size[i], (uint64_t)(me * 10 + i));
        tri_collective send = {
            .kind = TRI_SEND, .dtype = TRI_F32, .root = (me + 1) % n, .tag = i, .in = in[i], .count = size[i]};
        tri_collective receive = {
            .kind = TRI_RECV, .dtype = TRI_F32, .root = (me + n - 1) % n, .tag = i, .out = out[i], .count = size[i]};
        status = tri_post(group, &send, &request[2 * i]);
        if (status == TRI_OK) status = tri_post(group, &receive, &request[2 * i + 1]);
    }
    for (int i = 9; i >= 0 && status == TRI_OK; i--) status = tri_wait(world, request[i]);
    for (int i = 0; i < 5 && status == TRI_OK; i++) {
        for (int64_t j = 0; j < size[i]; j++) {
            uint32_t bits;
            memcpy(&bits, &out[i][j], 4);
            *digest = (*digest ^ bits) * 0x100000001B3u;
        }
        free(in[i]);
        free(out[i]);
    }
    return status;
}

tri_status program_run(tri_world *world, program_group *make, int rounds, uint64_t *digest) {
    int size = tri_world_size(world), rank = tri_world_rank(world), list[PROGRAM_MEMBERS], n = 0;
    tri_group *group;
    *digest = 0xCBF29CE484222325u;
    for (int shape = 0; shape < 3; shape++) {
        n = 0;
        for (int r = 0; r < size; r++)
            if (shape != 2 || r != 1) list[n++] = shape == 1 ? size - 1 - r : r;
        if (shape == 2 && rank == 1 && size > 1) continue;
        tri_status status = make(world, n, list, &group);
        if (status == TRI_OK) status = program_on(world, group, 1000 * shape, 45 * rounds, digest);
        if (status == TRI_OK && n > 1) status = program_ring(world, group, digest);
        if (status != TRI_OK) return status;
    }
    return TRI_OK;
}
