/* mesh.c - ranks as numbers with one digit an axis: the order says which digit is the highest. */
#include "layout/mesh.h"

static const char *const axis_names[] = {
#define X(upper, lower) #lower,
    TRI_AXES(X)
#undef X
};

const char *tri__axis_name(tri_axis axis) { return axis_names[axis]; }

/* "pp 2 x tp 1 x dp 4", with cp where it is above 1. ep is no further factor. */
static void list_sizes(tri_mesh_sizes of, char out[static 80]) {
    char dp[16] = "?", cp[32] = "";
    if (of.dp) snprintf(dp, sizeof dp, "%d", of.dp);
    if (of.cp > 1) snprintf(cp, sizeof cp, " x cp %d", of.cp);
    snprintf(out, 80, "pp %d x tp %d%s x dp %s", of.pp, of.tp, cp, dp);
}

static tri_status check_experts(tri_mesh_sizes of) {
    if (of.ep < 0) return tri__fail(TRI_USAGE, "--ep-size %d: a size must be positive", of.ep);
    if (of.ep > 1 && of.cp > 1)
        return tri__fail(TRI_USAGE,
                         "--ep-size %d with --cp-size %d: ranks that share tokens do not share experts: leave one out",
                         of.ep, of.cp);
    if (of.ep > 1 && of.dp % of.ep)
        return tri__fail(TRI_USAGE,
                         "--ep-size %d does not divide dp %d: replicas share experts in runs of equal size; take a "
                         "size that divides it",
                         of.ep, of.dp);
    return TRI_OK;
}

tri_status tri__mesh_make(tri_mesh *mesh, int world, tri_mesh_sizes of) {
    char sizes[80];
    list_sizes(of, sizes);
    if (world < 1 || of.pp < 1 || of.tp < 1 || of.cp < 1 || of.dp < 0)
        return tri__fail(TRI_USAGE, "mesh sizes must be positive: %d ranks, pp %d, tp %d, cp %d, dp %d", world, of.pp,
                         of.tp, of.cp, of.dp);
    double inner = (double)of.pp * of.tp * of.cp;
    if (of.dp == 0) {
        if (inner > world || world % (int)inner)
            return tri__fail(TRI_USAGE,
                             "%d ranks = %s: no whole number fits; take sizes whose product divides "
                             "%d, or %.0f ranks",
                             world, sizes, world, ((int)(world / inner) + 1) * inner);
        of.dp = (int)(world / inner);
    }
    if (inner * of.dp != world)
        return tri__fail(TRI_USAGE, "%d ranks asked for, but %s = %.0f", world, sizes, inner * of.dp);
    TRI_TRY(check_experts(of));
    *mesh = (tri_mesh){.pp = of.pp, .tp = of.tp, .dp = of.dp * of.cp, .cp = of.cp > 1 ? of.cp : 0,
                       .ep = of.ep > 1 ? of.ep : 0};
    return TRI_OK;
}

/* The axis at `place` of the order, 0 outermost. */
static int axis_at(const tri_mesh *mesh, int place) {
    static const uint8_t none[TRI_AXIS_COUNT];
    return memcmp(mesh->order, none, sizeof none) ? mesh->order[place] : place;
}

const char *tri__mesh_order(const tri_mesh *mesh, char out[static TRI_MESH_ORDER_TEXT]) {
    *out = 0;
    for (int place = 0; place < TRI_AXIS_COUNT; place++)
        tri__text_append(out, TRI_MESH_ORDER_TEXT, ",", "%s", axis_names[axis_at(mesh, place)]);
    return out;
}

static int find_axis(const char *word, size_t length) {
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        if (strlen(axis_names[axis]) == length && strncmp(axis_names[axis], word, length) == 0) return axis;
    return -1;
}

static tri_status read_order(const char *text, uint8_t order[static TRI_AXIS_COUNT]) {
    static const char advice[] = "it names pp, tp and dp once each, outermost first, e.g. pp,dp,tp, or is auto";
    unsigned seen = 0;
    int place = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int axis = find_axis(at, length);
        if (axis < 0)
            return tri__fail(TRI_USAGE, "mesh order \"%s\": \"%.*s\" is not an axis; %s", text, (int)length, at,
                             advice);
        if (seen & TRI_AXIS_SET(axis))
            return tri__fail(TRI_USAGE, "mesh order \"%s\": %s is named twice; %s", text, axis_names[axis], advice);
        seen |= TRI_AXIS_SET(axis);
        order[place++] = (uint8_t)axis;
        at += length;
        if (!*at) break;
    }
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        if (!(seen & TRI_AXIS_SET(axis)))
            return tri__fail(TRI_USAGE, "mesh order \"%s\": %s is missing; %s", text, axis_names[axis], advice);
    return TRI_OK;
}

tri_status tri__mesh_set_order(tri_mesh *mesh, const char *text, int per_node) {
    uint8_t order[TRI_AXIS_COUNT] = {TRI_AXIS_PP, TRI_AXIS_TP, TRI_AXIS_DP};
    tri_mesh usual = *mesh;
    memset(usual.order, 0, sizeof usual.order);
    if (strcmp(text, "auto")) TRI_TRY(read_order(text, order));
    else if (tri__mesh_crossing(&usual, TRI_AXIS_TP, per_node)) TRI_TRY(read_order("pp,dp,tp", order));
    memcpy(mesh->order, order, sizeof order);
    return TRI_OK;
}

int tri__mesh_world(const tri_mesh *mesh) { return mesh->pp * mesh->tp * mesh->dp; }

tri_coords tri__mesh_coords(const tri_mesh *mesh, int rank) {
    tri_coords at;
    for (int place = TRI_AXIS_COUNT - 1; place >= 0; place--) {
        int axis = axis_at(mesh, place);
        at.of[axis] = rank % mesh->size[axis];
        rank /= mesh->size[axis];
    }
    return at;
}

int tri__mesh_rank(const tri_mesh *mesh, tri_coords at) {
    int rank = 0;
    for (int place = 0; place < TRI_AXIS_COUNT; place++) {
        int axis = axis_at(mesh, place);
        rank = rank * mesh->size[axis] + at.of[axis];
    }
    return rank;
}

int tri__mesh_group_size(const tri_mesh *mesh, unsigned axes) {
    int n = 1;
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        if (axes & TRI_AXIS_SET(axis)) n *= mesh->size[axis];
    return n;
}

int tri__mesh_group_place(const tri_mesh *mesh, int rank, unsigned axes) {
    tri_coords at = tri__mesh_coords(mesh, rank);
    int number = 0;
    for (int place = 0; place < TRI_AXIS_COUNT; place++) {
        int axis = axis_at(mesh, place);
        if (axes & TRI_AXIS_SET(axis)) number = number * mesh->size[axis] + at.of[axis];
    }
    return number;
}

int tri__mesh_group_rank(const tri_mesh *mesh, int rank, unsigned axes, int member) {
    tri_coords at = tri__mesh_coords(mesh, rank);
    for (int place = TRI_AXIS_COUNT - 1; place >= 0; place--) {
        int axis = axis_at(mesh, place);
        if (!(axes & TRI_AXIS_SET(axis))) continue;
        at.of[axis] = member % mesh->size[axis];
        member /= mesh->size[axis];
    }
    return tri__mesh_rank(mesh, at);
}

int tri__mesh_group(const tri_mesh *mesh, int rank, unsigned axes, int *ranks) {
    int n = tri__mesh_group_size(mesh, axes);
    for (int member = 0; member < n; member++) ranks[member] = tri__mesh_group_rank(mesh, rank, axes, member);
    return n;
}

int tri__mesh_beside(const tri_mesh *mesh, int rank, tri_axis axis, int at) {
    tri_coords coords = tri__mesh_coords(mesh, rank);
    if (at < 0 || at >= mesh->size[axis]) return -1;
    coords.of[axis] = at;
    return tri__mesh_rank(mesh, coords);
}

int tri__mesh_crossing(const tri_mesh *mesh, tri_axis axis, int per_node) {
    int groups = 0, world = tri__mesh_world(mesh), last = mesh->size[axis] - 1;
    for (int rank = 0; rank < world; rank++) /* ranks of a group ascend: the first and last suffice */
        groups += tri__mesh_coords(mesh, rank).of[axis] == 0 &&
                  tri__mesh_beside(mesh, rank, axis, last) / per_node != rank / per_node;
    return groups;
}

const char *tri__mesh_advice(const tri_mesh *mesh, int per_node, const char *where,
                             char out[static TRI_MESH_ADVICE]) {
    int crossing = tri__mesh_crossing(mesh, TRI_AXIS_TP, per_node), groups = tri__mesh_world(mesh) / mesh->tp;
    tri_mesh better = *mesh;
    char now[TRI_MESH_ORDER_TEXT], other[TRI_MESH_ORDER_TEXT];
    out[0] = 0;
    if (!crossing || tri__mesh_set_order(&better, "auto", per_node) != TRI_OK) return out;
    int left = tri__mesh_crossing(&better, TRI_AXIS_TP, per_node);
    snprintf(out, TRI_MESH_ADVICE, "%d of %d tensor groups cross %ss of %d ranks (order %s)", crossing, groups, where,
             per_node, tri__mesh_order(mesh, now));
    tri__mesh_order(&better, other);
    if (left == 0) tri__text_append(out, TRI_MESH_ADVICE, "; ", "--mesh-order %s keeps them inside", other);
    else if (left < crossing)
        tri__text_append(out, TRI_MESH_ADVICE, "; ", "with --mesh-order %s only %d do", other, left);
    else
        tri__text_append(out, TRI_MESH_ADVICE, "; ", "no order avoids it: tp %d and %d ranks a%s %s do not fit",
                         mesh->tp, per_node, *where == 'i' ? "n" : "", where);
    return out;
}
