/* mesh.c - rank = pp * (TP * DP) + tp * DP + dp. */
#include "layout/mesh.h"

tri_status tri__mesh_make(tri_mesh *mesh, int world, int pp, int tp, int dp) {
    if (world < 1 || pp < 1 || tp < 1 || dp < 0)
        return tri__fail(TRI_USAGE, "mesh sizes must be positive: %d ranks, pp %d, tp %d, dp %d", world, pp, tp, dp);
    int64_t inner = (int64_t)pp * tp;
    if (dp == 0) {
        if (world % inner) return tri__fail(TRI_USAGE, "%d ranks = pp %d x tp %d x dp ?", world, pp, tp);
        dp = (int)(world / inner);
    }
    if (inner * dp != world)
        return tri__fail(TRI_USAGE, "%d ranks asked for, but pp %d x tp %d x dp %d = %lld", world, pp, tp, dp,
                         (long long)(inner * dp));
    *mesh = (tri_mesh){.pp = pp, .tp = tp, .dp = dp};
    return TRI_OK;
}

int tri__mesh_world(const tri_mesh *mesh) { return mesh->pp * mesh->tp * mesh->dp; }

tri_coords tri__mesh_coords(const tri_mesh *mesh, int rank) {
    return (tri_coords){
        .pp = rank / (mesh->tp * mesh->dp), .tp = rank / mesh->dp % mesh->tp, .dp = rank % mesh->dp};
}

int tri__mesh_rank(const tri_mesh *mesh, tri_coords at) {
    return (at.pp * mesh->tp + at.tp) * mesh->dp + at.dp;
}
