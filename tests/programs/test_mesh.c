/* test_mesh.c - ranks and coordinates in every order, groups, stages, nodes, and what is refused. Every mesh of up to 4
 * x 4 x 4 ranks in all six orders, against definitions that do not share the code's arithmetic. */
#include "layout/mesh.h"

#include "tests/lib/test.h"

enum { MOST = 4, WORLD = MOST * MOST * MOST, ORDERS = 6 };
static const char *const orders[ORDERS] = {"pp,tp,dp", "pp,dp,tp", "tp,pp,dp", "tp,dp,pp", "dp,pp,tp", "dp,tp,pp"};

/* Calls `check` for every mesh in every order. */
static void sweep(void (*check)(const tri_mesh *mesh, const char *order)) {
    for (int pp = 1; pp <= MOST; pp++)
        for (int tp = 1; tp <= MOST; tp++)
            for (int dp = 1; dp <= MOST; dp++)
                for (int i = 0; i < ORDERS; i++) {
                    tri_mesh mesh;
                    assert_int_equal(
                        tri__mesh_make(&mesh, pp * tp * dp,
                                       (tri_mesh_sizes){.pp = pp, .tp = tp, .cp = 1, .dp = i % 2 ? dp : 0}),
                        TRI_OK);
                    assert_true(mesh.pp == pp && mesh.tp == tp && mesh.dp == dp);
                    assert_int_equal(tri__mesh_world(&mesh), pp * tp * dp);
                    assert_int_equal(tri__mesh_set_order(&mesh, orders[i], 1), TRI_OK);
                    check(&mesh, orders[i]);
                }
}

/* Ranks count the coordinates up, the order's last axis first. */
static void check_ranks(const tri_mesh *mesh, const char *order) {
    int place[TRI_AXIS_COUNT], size[TRI_AXIS_COUNT], at[TRI_AXIS_COUNT] = {0};
    for (int i = 0; i < TRI_AXIS_COUNT; i++) {
        place[i] = order[3 * i] == 'p' ? TRI_AXIS_PP : order[3 * i] == 't' ? TRI_AXIS_TP : TRI_AXIS_DP;
        size[i] = place[i] == TRI_AXIS_PP ? mesh->pp : place[i] == TRI_AXIS_TP ? mesh->tp : mesh->dp;
    }
    for (int rank = 0; rank < tri__mesh_world(mesh); rank++) {
        tri_coords coords = tri__mesh_coords(mesh, rank);
        for (int i = 0; i < TRI_AXIS_COUNT; i++) assert_int_equal(coords.of[place[i]], at[i]);
        assert_int_equal(tri__mesh_rank(mesh, coords), rank);
        for (int i = TRI_AXIS_COUNT - 1; i >= 0 && ++at[i] == size[i]; i--) at[i] = 0;
    }
    char text[TRI_MESH_ORDER_TEXT];
    assert_string_equal(tri__mesh_order(mesh, text), order);
}

TEST(test_ranks) {
    sweep(check_ranks);
    tri_mesh mesh = {.pp = 4, .tp = 2, .dp = 2}; /* a zeroed order is the default one */
    char text[TRI_MESH_ORDER_TEXT];
    assert_string_equal(tri__mesh_order(&mesh, text), "pp,tp,dp");
    assert_int_equal(tri__mesh_rank(&mesh, (tri_coords){.pp = 3, .tp = 1, .dp = 1}), 15);
    assert_int_equal(tri__mesh_rank(&mesh, (tri_coords){.pp = 1}), 4);
    assert_int_equal(tri__mesh_rank(&mesh, (tri_coords){.pp = 2, .dp = 1}), 9);
    assert_int_equal(tri__mesh_set_order(&mesh, "dp,tp,pp", 1), TRI_OK);
    assert_int_equal(tri__mesh_rank(&mesh, (tri_coords){.pp = 2, .dp = 1}), 10);
}

/* A group holds, ascending, the ranks that agree on all other axes; all its members see the same list. */
static void check_groups(const tri_mesh *mesh, const char *order) {
    (void)order;
    int world = tri__mesh_world(mesh), want[WORLD], got[WORLD];
    for (unsigned axes = 0; axes < TRI_AXIS_SET(TRI_AXIS_COUNT); axes++)
        for (int rank = 0; rank < world; rank++) {
            tri_coords mine = tri__mesh_coords(mesh, rank);
            int n = 0, place = -1;
            for (int other = 0; other < world; other++) {
                tri_coords its = tri__mesh_coords(mesh, other);
                int same = 1;
                for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
                    same &= (axes >> axis & 1) || its.of[axis] == mine.of[axis];
                if (other == rank) place = n;
                if (same) want[n++] = other;
            }
            assert_int_equal(tri__mesh_group_size(mesh, axes), n);
            assert_int_equal(tri__mesh_group(mesh, rank, axes, got), n);
            assert_memory_equal(got, want, (size_t)n * sizeof *want);
            assert_int_equal(tri__mesh_group_place(mesh, rank, axes), place);
        }
}

static void check_stages(const tri_mesh *mesh, const char *order) {
    (void)order;
    for (int rank = 0; rank < tri__mesh_world(mesh); rank++) {
        tri_coords at = tri__mesh_coords(mesh, rank);
        int next = tri__mesh_step(mesh, rank, TRI_AXIS_PP, 1), previous = tri__mesh_step(mesh, rank, TRI_AXIS_PP, -1);
        assert_int_equal(previous < 0, at.pp == 0);
        assert_int_equal(next < 0, at.pp == mesh->pp - 1);
        if (next < 0) continue;
        tri_coords after = tri__mesh_coords(mesh, next);
        assert_true(after.pp == at.pp + 1 && after.tp == at.tp && after.dp == at.dp);
        assert_int_equal(tri__mesh_step(mesh, next, TRI_AXIS_PP, -1), rank);
    }
}

TEST(test_groups) {
    sweep(check_groups);
}

TEST(test_stages) {
    sweep(check_stages);
    tri_mesh mesh = {.pp = 2, .tp = 2, .dp = 2};
    assert_int_equal(tri__mesh_beside(&mesh, 0, TRI_AXIS_DP, 2), -1);
    assert_int_equal(tri__mesh_beside(&mesh, 0, TRI_AXIS_DP, -1), -1);
    assert_int_equal(tri__mesh_beside(&mesh, 5, TRI_AXIS_TP, 1), 7);
}

/* Members of every group compared one by one. */
static int crossing(const tri_mesh *mesh, tri_axis axis, int per_node) {
    int ranks[WORLD], count = 0;
    for (int rank = 0; rank < tri__mesh_world(mesh); rank++) {
        int n = tri__mesh_group(mesh, rank, TRI_AXIS_SET(axis), ranks), apart = 0;
        for (int i = 0; i < n; i++) apart |= ranks[i] / per_node != rank / per_node;
        count += apart && ranks[0] == rank;
    }
    return count;
}

/* "auto" changes nothing without need, and no other order has fewer tensor groups that cross. */
static void check_auto(const tri_mesh *mesh, const char *order) {
    if (strcmp(order, orders[0])) return;
    for (int per_node = 1; per_node <= tri__mesh_world(mesh); per_node++) {
        int best = WORLD, now[ORDERS];
        if (tri__mesh_world(mesh) % per_node) continue; /* every node holds the same number of ranks */
        tri_mesh other = *mesh;
        for (int i = 0; i < ORDERS; i++) {
            assert_int_equal(tri__mesh_set_order(&other, orders[i], per_node), TRI_OK);
            now[i] = crossing(&other, TRI_AXIS_TP, per_node);
            assert_int_equal(tri__mesh_crossing(&other, TRI_AXIS_TP, per_node), now[i]);
            assert_int_equal(tri__mesh_crossing(&other, TRI_AXIS_DP, per_node),
                             crossing(&other, TRI_AXIS_DP, per_node));
            if (now[i] < best) best = now[i];
        }
        char text[TRI_MESH_ORDER_TEXT];
        assert_int_equal(tri__mesh_set_order(&other, "auto", per_node), TRI_OK);
        assert_string_equal(tri__mesh_order(&other, text), now[0] ? "pp,dp,tp" : "pp,tp,dp");
        assert_int_equal(tri__mesh_crossing(&other, TRI_AXIS_TP, per_node), best);
    }
}

TEST(test_nodes) {
    sweep(check_auto);
    tri_mesh mesh = {.pp = 2, .tp = 2, .dp = 4}; /* tensor groups {0, 4}, {1, 5}, ... on nodes of 4 */
    assert_int_equal(tri__mesh_crossing(&mesh, TRI_AXIS_TP, 4), 8);
    assert_int_equal(tri__mesh_crossing(&mesh, TRI_AXIS_TP, 8), 0);
    assert_int_equal(tri__mesh_crossing(&mesh, TRI_AXIS_PP, 8), 8);
}

static void expect_error(tri_status got, const char *part) {
    assert_int_equal(got, TRI_USAGE);
    if (!strstr(tri_error(), part)) fail_msg("\"%s\" lacks \"%s\"", tri_error(), part);
}

TEST(test_refused) {
    static const struct {
        int world, pp, tp, dp;
        const char *part; /* of the message */
    } cases[] = {{16, 3, 2, 0, "16 ranks = pp 3 x tp 2 x dp ?"},
                 {8, 3, 1, 0, "8 ranks = pp 3 x tp 1 x dp ?"},
                 {8, 2, 2, 4, "8 ranks asked for, but pp 2 x tp 2 x dp 4 = 16"},
                 {0, 1, 1, 1, "positive"},
                 {-4, 1, 1, 0, "positive"},
                 {4, 0, 1, 1, "positive"},
                 {4, 1, -1, 0, "positive"},
                 {4, 1, 1, -1, "positive"},
                 {1, 2, 1, 0, "1 ranks"},
                 {4, 2, 2, 2, "= 8"},
                 {4, 65536, 65536, 1, "pp 65536 x tp 65536 x dp 1 = 4294967296"},
                 {4, INT32_MAX, INT32_MAX, INT32_MAX, "4 ranks asked for"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_mesh mesh;
        expect_error(tri__mesh_make(&mesh, cases[i].world,
                                    (tri_mesh_sizes){.pp = cases[i].pp, .tp = cases[i].tp, .cp = 1, .dp = cases[i].dp}),
                     cases[i].part);
    }
    static const char *const texts[][2] = {
        {"pp,tp", "dp is missing"},           {"tp,dp", "pp is missing"},
        {"pp,tp,tp", "tp is named twice"},    {"", "\"\" is not an axis"},
        {"pp,tp,dp,", "\"\" is not an axis"}, {"pp,tp,dp,cp", "\"cp\" is not an axis"},
        {"pp tp dp", "is not an axis"},       {"PP,tp,dp", "\"PP\" is not an axis"},
        {"pp,tp,dp,pp", "pp is named twice"}, {",pp,tp,dp", "\"\" is not an axis"},
        {"automatic", "or is auto"},          {"p,tp,dp", "\"p\" is not an axis"}};
    tri_mesh mesh = {.pp = 1, .tp = 2, .dp = 3}, same = mesh;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_error(tri__mesh_set_order(&mesh, texts[i][0], 1), texts[i][1]);
    assert_memory_equal(mesh.order, same.order, sizeof mesh.order); /* what is refused changes nothing */
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
