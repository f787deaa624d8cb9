/* mesh_options.c - settings that follow from one another: the number of ranks, their machines, and each replica's share
 * of a step. */
#include "settings/settings.h"

enum { MACHINES_MAX = 1 << 20 };

/* "N", or torchrun's "MIN:MAX": then MIN machines, until a launcher says how many there are this time. */
static tri_status read_nodes(tri_settings *s) {
    const char *text = s->nnodes;
    char *end, *last;
    long long least = strtoll(text, &end, 10), most = least;
    last = end;
    if (*end == ':') most = strtoll(end + 1, &last, 10);
    if (end == text || (*end == ':' && last == end + 1) || *last || least < 1 || least > MACHINES_MAX || most < least)
        return tri__fail(TRI_USAGE, "--nnodes: expected a number of machines, not \"%s\"", text);
    if (most != least && !s->elastic)
        return tri__fail(TRI_USAGE,
                         "--nnodes %s: the number of machines stays the same while a run lasts; give one number, or "
                         "--elastic: then each start of the job under `trident supervise` may have another", text);
    s->nodes = least, s->nodes_most = most;
    return TRI_OK;
}

/* "auto", "cpu" and "gpu" as torchrun has them. */
static tri_status count_here(tri_settings *s) {
    if (s->nproc_per_node == TRI_NPROC_GPUS && (s->nproc_per_node = tri__gpus()) == 0)
        return tri__fail(TRI_USAGE, "--nproc-per-node gpu: this machine has no NVIDIA GPU; try cpu, or a number");
    if (s->nproc_per_node == TRI_NPROC_CORES) s->nproc_per_node = tri__cores();
    return TRI_OK;
}

/* world_size = nodes * nproc_per_node: the one that was not given follows from the others. */
static tri_status count_ranks(tri_settings *s) {
    TRI_TRY(read_nodes(s));
    TRI_TRY(count_here(s));
    if (!tri__settings_given(s, &s->world_size)) {
        s->world_size = s->nodes * s->nproc_per_node;
        return TRI_OK;
    }
    if (!tri__settings_given(s, &s->nproc_per_node)) {
        if (s->world_size % s->nodes)
            return tri__fail(TRI_USAGE, "--world-size %lld cannot be shared by %lld machines alike (--nnodes)",
                             (long long)s->world_size, (long long)s->nodes);
        s->nproc_per_node = s->world_size / s->nodes;
    } else if (!tri__settings_given(s, &s->nnodes)) {
        if (s->world_size % s->nproc_per_node)
            return tri__fail(TRI_USAGE, "--world-size %lld cannot be shared by machines of %lld ranks each "
                             "(--nproc-per-node)", (long long)s->world_size, (long long)s->nproc_per_node);
        s->nodes = s->world_size / s->nproc_per_node;
    }
    if (s->world_size != s->nodes * s->nproc_per_node)
        return tri__fail(TRI_USAGE, "--world-size %lld is not --nnodes %lld x --nproc-per-node %lld",
                         (long long)s->world_size, (long long)s->nodes, (long long)s->nproc_per_node);
    return TRI_OK;
}

int64_t tri__settings_replicas(const tri_settings *s) {
    int64_t left = s->world_size / (s->pp_size * s->tp_size * s->cp_size);
    return s->dp_size ? s->dp_size : left > 1 ? left : 1;
}

int64_t tri__settings_global_batch(const tri_settings *s) {
    return s->global_batch_size ? s->global_batch_size : s->batch_size * tri__settings_replicas(s);
}

/* A replica's samples, and its microbatches. */
static tri_status share_batch(tri_settings *s) {
    int64_t replicas = tri__settings_replicas(s), parts = s->pp_size > 1 ? 2 * s->pp_size : 1;
    if (tri__settings_given(s, &s->global_batch_size) && !tri__settings_given(s, &s->batch_size) &&
        s->global_batch_size)
        s->batch_size = (s->global_batch_size + replicas - 1) / replicas;
    if (!s->num_microbatches && tri__settings_given(s, &s->num_microbatches))
        tri__settings_forget(s, &s->num_microbatches);
    if (!tri__settings_given(s, &s->num_microbatches))
        s->num_microbatches = s->micro_batch ? s->batch_size / s->micro_batch
                                             : parts < s->batch_size ? parts : s->batch_size;
    if (!s->micro_batch || s->micro_batch * s->num_microbatches * replicas == s->global_batch_size) return TRI_OK;
    return tri__fail(TRI_USAGE, "train_batch_size %lld on %lld replica%s is not a multiple of their "
                     "train_micro_batch_size_per_gpu %lld", (long long)s->global_batch_size, (long long)replicas,
                     replicas == 1 ? "" : "s", (long long)s->micro_batch);
}

tri_status tri__settings_ranks(tri_settings *s) {
    TRI_TRY(count_ranks(s));
    return share_batch(s);
}

static tri_status agrees(const char *option, int given, int64_t asked, int there, const char *what) {
    if (!given || asked == there) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s %lld, but the launcher started %d ranks %s: leave the option out, or start as many",
                     option, (long long)asked, there, what);
}

tri_status tri__settings_launched(tri_settings *s, int world, int local) {
    TRI_TRY(agrees("--world-size", tri__settings_given(s, &s->world_size), s->world_size, world, "in all"));
    TRI_TRY(agrees("--nproc-per-node", tri__settings_given(s, &s->nproc_per_node), s->nproc_per_node, local,
                   "on this machine"));
    int64_t nodes = local > 0 ? (world + local - 1) / local : 1;
    if (s->nodes_most > s->nodes && (nodes < s->nodes || nodes > s->nodes_most))
        return tri__fail(TRI_USAGE, "--nnodes %s, but the launcher started ranks on %lld machine%s", s->nnodes,
                         (long long)nodes, nodes == 1 ? "" : "s");
    s->world_size = world;
    s->nproc_per_node = local;
    s->nodes = s->nodes_most = nodes;
    return share_batch(s);
}

tri_status tri__settings_mesh(const tri_settings *s, tri_mesh *mesh) {
    const tri_mesh_sizes sizes = {(int)s->pp_size, (int)s->tp_size, (int)s->cp_size, (int)s->dp_size, (int)s->ep_size};
    TRI_TRY(tri__mesh_make(mesh, (int)s->world_size, sizes));
    return tri__mesh_set_order(mesh, s->mesh_order, (int)s->nproc_per_node);
}
