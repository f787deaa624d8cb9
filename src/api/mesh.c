/* mesh.c - the public interface of the grid of ranks, on top of layout/mesh.h. */
#include "api/options.h"
#include "trident_mesh.h"

tri_status tri_mesh_open(int n_options, const char *const *options, tri_mesh **out) {
    TRI_OWNED(tri__settings_free) tri_settings settings = {0};
    TRI_OWNED(tri__free_at) tri_mesh *mesh = NULL;
    *out = NULL;
    TRI_TRY(TRI_NEW(mesh, 1, "a mesh"));
    TRI_TRY(tri__api_options(&settings, "mesh", n_options, options));
    TRI_TRY(tri__settings_mesh(&settings, mesh));
    *out = TRI_GIVE(mesh);
    return tri__done(TRI_OK);
}

void tri_mesh_close(tri_mesh *mesh) { free(mesh); }

int tri_mesh_ranks(const tri_mesh *mesh) { return tri__mesh_world(mesh); }

enum { PP, TP, DP, CP, EP, AXES };

static int axis_of(const char *name, size_t length) {
    static const char names[AXES][3] = {"pp", "tp", "dp", "cp", "ep"};
    int axis = 0;
    while (axis < AXES && (length != 2 || strncmp(names[axis], name, 2))) axis++;
    return axis;
}

int tri_mesh_size(const tri_mesh *mesh, const char *axis) {
    const int sizes[AXES + 1] = {mesh->pp, mesh->tp, tri__mesh_readers(mesh), tri__mesh_cp(mesh), tri__mesh_ep(mesh)};
    return sizes[axis_of(axis, strlen(axis))];
}

static int place_of(const tri_mesh *mesh, int rank, int axis) {
    tri_coords at = tri__mesh_coords(mesh, rank);
    const int places[AXES + 1] = {at.pp, at.tp, tri__mesh_reader(mesh, rank), tri__mesh_context(mesh, rank),
                                  tri__mesh_expert(mesh, rank), -1};
    return places[axis];
}

int tri_mesh_coordinate(const tri_mesh *mesh, int rank, const char *axis) {
    return rank >= 0 && rank < tri__mesh_world(mesh) ? place_of(mesh, rank, axis_of(axis, strlen(axis))) : -1;
}

tri_status tri_mesh_group(const tri_mesh *mesh, int rank, const char *axes, int *ranks, int *n) {
    int world = tri__mesh_world(mesh), is_free[AXES + 1] = {0};
    *n = 0;
    if (rank < 0 || rank >= world) return tri__fail(TRI_USAGE, "rank %d: there are ranks 0 to %d", rank, world - 1);
    for (const char *at = axes; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        is_free[axis_of(at, strcspn(at, ","))] = 1;
    if (is_free[AXES]) return tri__fail(TRI_USAGE, "axes \"%s\": expected pp, tp, dp, cp or ep, e.g. dp,cp", axes);
    for (int r = 0; r < world; r++) {
        int run = is_free[EP] ? tri__mesh_ep(mesh) : 1; /* of replicas that share experts */
        int differs = !is_free[DP] && place_of(mesh, r, DP) / run != place_of(mesh, rank, DP) / run;
        for (int axis = PP; axis <= CP; axis++)
            differs |= axis != DP && !is_free[axis] && place_of(mesh, r, axis) != place_of(mesh, rank, axis);
        if (!differs) ranks[(*n)++] = r;
    }
    return tri__done(TRI_OK);
}

int tri_mesh_neighbour(const tri_mesh *mesh, int rank, const char *axis, int steps) {
    int which = axis_of(axis, strlen(axis)), at = tri_mesh_coordinate(mesh, rank, axis);
    if (at < 0 || at + steps < 0 || at + steps >= tri_mesh_size(mesh, axis)) return -1;
    if (which == DP) steps *= tri__mesh_cp(mesh);
    return tri__mesh_step(mesh, rank, which < DP ? (tri_axis)which : TRI_AXIS_DP, steps);
}
