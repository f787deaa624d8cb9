/* pass.c - what several passes ask: who shares a unit's parameters, which elements of it count. It calls no pass. */
#include "plan/pass.h"

tri_holder tri__plan_holder(const tri_plan_in *in) {
    return (tri_holder){in->mesh.tp, tri__mesh_coords(&in->mesh, in->rank).tp, tri__mesh_ep(&in->mesh),
                        tri__mesh_expert(&in->mesh, in->rank)};
}

tri_sharers tri__unit_sharers(const tri_pass *pass, int unit) {
    const tri_mesh *mesh = &pass->in->mesh;
    int ep = tri__mesh_ep(mesh), apart = ep > 1 && pass->model->unit[unit].experts;
    tri_attr of = apart ? (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .across = ep} : pass->group;
    return (tri_sharers){of, tri__transfer_size(mesh, &of), tri__transfer_place(mesh, pass->in->rank, &of)};
}

int tri__same_sharers(const tri_pass *pass, int unit, int other) {
    const tri_unit *all = pass->model->unit;
    return tri__mesh_ep(&pass->in->mesh) == 1 || !all[unit].experts == !all[other].experts;
}

tri_range *tri__trained_parts(const tri_pass *pass, tri_range *part) {
    int n = pass->model->n_units, frozen = 0;
    for (int u = 0; u < n; u++) frozen += pass->model->unit[u].frozen;
    if (!frozen) return part;
    tri_range *trained = tri__arena_alloc(pass->arena, (size_t)n * sizeof *trained);
    for (int u = 0; u < n; u++)
        if (!pass->model->unit[u].frozen) trained[u] = part[u];
    return trained;
}

int tri__same_run(const tri_param *a, const tri_param *b) { return a->decays == b->decays && a->rate == b->rate; }

tri_range tri__tensor_once(const tri_pass *pass, int unit, tri_range part) {
    if (tri__mesh_coords(&pass->in->mesh, pass->in->rank).tp == 0) return part;
    return tri__range_both(part, (tri_range){0, pass->model->unit[unit].split});
}
