/* blocking.c - operations that post and wait in one call. A wait moves all of this rank's operations, so a
 * blocking call between a post and its wait does not hold up the other members of the posted one. */
#include "comm/world/world.h"

static tri_status run(tri_group *group, tri_collective what) {
    tri_request request;
    TRI_TRY(tri_post(group, &what, &request));
    return tri_wait(group->world, request);
}

tri_status tri_send(tri_group *group, const void *in, int64_t count, tri_dtype dtype, int to, int tag) {
    return run(group, (tri_collective){.kind = TRI_SEND, .dtype = dtype, .root = to, .tag = tag, .in = in,
                                       .count = count});
}

tri_status tri_recv(tri_group *group, void *out, int64_t count, tri_dtype dtype, int from, int tag) {
    return run(group, (tri_collective){.kind = TRI_RECV, .dtype = dtype, .root = from, .tag = tag, .out = out,
                                       .count = count});
}

tri_status tri_broadcast(tri_group *group, void *data, int64_t count, tri_dtype dtype, int root) {
    return run(group, (tri_collective){.kind = TRI_BROADCAST, .dtype = dtype, .root = root, .in = data, .out = data,
                                       .count = count});
}

tri_status tri_all_reduce(tri_group *group, const void *in, void *out, int64_t count, tri_dtype dtype,
                          tri_reduction reduction) {
    return run(group, (tri_collective){.kind = TRI_ALL_REDUCE, .dtype = dtype, .reduction = reduction,
                                       .in = in ? in : out, .out = out, .count = count});
}

tri_status tri_reduce(tri_group *group, const void *in, void *out, int64_t count, tri_dtype dtype,
                      tri_reduction reduction, int root) {
    return run(group, (tri_collective){.kind = TRI_REDUCE, .dtype = dtype, .reduction = reduction, .root = root,
                                       .in = in ? in : out, .out = out, .count = count});
}

tri_status tri_all_gather(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                          tri_dtype dtype) {
    return run(group, (tri_collective){.kind = TRI_ALL_GATHER, .dtype = dtype, .in = in, .out = out, .count = count,
                                       .counts = counts});
}

tri_status tri_gather(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                      tri_dtype dtype, int root) {
    return run(group, (tri_collective){.kind = TRI_GATHER, .dtype = dtype, .root = root, .in = in, .out = out,
                                       .count = count, .counts = counts});
}

tri_status tri_scatter(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                       tri_dtype dtype, int root) {
    return run(group, (tri_collective){.kind = TRI_SCATTER, .dtype = dtype, .root = root, .in = in, .out = out,
                                       .count = count, .counts = counts});
}

tri_status tri_reduce_scatter(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                              tri_dtype dtype, tri_reduction reduction) {
    return run(group, (tri_collective){.kind = TRI_REDUCE_SCATTER, .dtype = dtype, .reduction = reduction, .in = in,
                                       .out = out, .count = count, .counts = counts});
}

tri_status tri_all_to_all(tri_group *group, const void *in, void *out, int64_t count, tri_dtype dtype) {
    return run(group, (tri_collective){.kind = TRI_ALL_TO_ALL, .dtype = dtype, .in = in, .out = out, .count = count});
}

tri_status tri_barrier(tri_group *group) { return run(group, (tri_collective){.kind = TRI_BARRIER}); }
