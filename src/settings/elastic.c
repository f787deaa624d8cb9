/* elastic.c - which meshes fewer ranks, or more, can form. */
#include "settings/settings.h"

/* Replicas come in runs of so many: those that share experts, and those that share a hybrid shard. */
static int replicas_step(const tri_settings *s) {
    enum { HYBRID = 4 };
    int64_t step = s->ep_size > 1 ? s->ep_size : 1;
    if (s->shard == HYBRID && s->shard_size > 0 && s->shard_size % step == 0) step = s->shard_size;
    return (int)step;
}

/* < 0: a is better. */
static int compare(int asked, const tri_elastic_mesh *a, const tri_elastic_mesh *b) {
    if (a->ranks != b->ranks) return b->ranks - a->ranks;
    if ((a->stages < asked) != (b->stages < asked)) return a->stages < asked ? 1 : -1;
    return abs(a->stages - asked) - abs(b->stages - asked);
}

static void insert(int asked, const tri_elastic_mesh *mesh, tri_elastic_mesh *out, int *n, int max) {
    int at = *n;
    while (at > 0 && compare(asked, mesh, &out[at - 1]) < 0) at--;
    if (at == max) return;
    if (*n < max) ++*n;
    for (int i = *n - 1; i > at; i--) out[i] = out[i - 1];
    out[at] = *mesh;
}

int tri__elastic_meshes(const tri_settings *s, int alive, tri_elastic_mesh *out, int max) {
    int each = (int)(s->tp_size * s->cp_size), step = replicas_step(s), asked = (int)s->pp_size, n = 0;
    int fixed = asked == 1 || s->stages.n > 0; /* one stage is not cut: that is another way to train */
    for (int stages = fixed ? asked : 1; stages <= (fixed ? asked : alive); stages++) {
        int replicas = alive / (each * stages) / step * step;
        if (replicas > s->global_batch_size && s->global_batch_size > 0) replicas = (int)s->global_batch_size;
        const tri_elastic_mesh mesh = {stages, replicas, replicas * stages * each};
        if (replicas > 0) insert(asked, &mesh, out, &n, max);
    }
    return n;
}

tri_settings tri__elastic_settings(const tri_settings *asked, int stages, int replicas) {
    tri_settings s = *asked;
    s.global_batch_size = tri__settings_global_batch(asked);
    s.pp_size = stages;
    s.dp_size = replicas;
    s.world_size = stages * replicas * asked->tp_size * asked->cp_size;
    if (s.nproc_per_node > s.world_size) s.nproc_per_node = s.world_size;
    s.batch_size = (s.global_batch_size + replicas - 1) / replicas;
    return s;
}
