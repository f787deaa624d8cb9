/* mesh.h - the grid of ranks: named axes, and which ranks form a group along them. Pure arithmetic: no communication.
 *
 * With the default order, outermost first pp, tp, dp: rank = pp * (TP * DP) + tp * DP + dp. Another order permutes the
 * axes in that formula; coordinates keep their meaning. A new axis is a row of TRI_AXES and a field of the two
 * structs.
 *
 * Ranks along dp hold the same weights. Context parallelism is a factor of that axis: runs of cp consecutive places
 * take the same samples, and each rank of a run some of their tokens. So sums of gradients, shards and all that
 * concerns weights need not know of it; what concerns data has dp / cp groups (tri__mesh_readers). Expert parallelism
 * is another factor: the ranks of a run of ep places take different samples, and each holds some of the experts of
 * every layer that has any. A run holds all of them; ranks of the same place in their runs hold the same ones. */
#pragma once

#include "base/base.h"

#define TRI_AXES(X) /* upper, lower: in the default order */ \
    X(PP, pp) /* pipeline stages */                          \
    X(TP, tp) /* ranks that share each layer */              \
    X(DP, dp) /* replicas */
typedef enum tri_axis {
#define X(upper, lower) TRI_AXIS_##upper,
    TRI_AXES(X)
#undef X
    TRI_AXIS_COUNT
} tri_axis;
#define TRI_AXIS_SET(axis) (1u << (axis)) /* sets of axes are or-ed together */

typedef struct tri_mesh {
    union {
        struct {
            int pp, tp, dp;
        };
        int size[TRI_AXIS_COUNT]; /* by tri_axis; their product is the world size */
    };
    uint8_t order[TRI_AXIS_COUNT]; /* tri_axis, outermost first, each once; all 0: the default order */
    int cp;                        /* ranks that share each sequence's tokens; divides dp; 0: none do, never 1 */
    int ep;                        /* ranks that share the experts of a layer; divides dp; 0: none do, never 1 */
} tri_mesh;

typedef union tri_coords {
    struct {
        int pp, tp, dp;
    };
    int of[TRI_AXIS_COUNT]; /* by tri_axis */
} tri_coords;

/* The sizes that users give. */
typedef struct tri_mesh_sizes {
    int pp, tp, cp;
    int dp;        /* groups that take different samples; 0: world / (pp * tp * cp) */
    int ep;        /* of these, how many share the experts; 0: 1 */
} tri_mesh_sizes;
/* In the default order. Refuses sizes that do not multiply to `world`, with the numbers. */
tri_status tri__mesh_make(tri_mesh *mesh, int world, tri_mesh_sizes sizes);
/* `text`: all axes, outermost first ("pp,dp,tp"), or "auto": the default unless its tensor groups cross nodes of
 * `per_node` ranks, then pp,dp,tp, with which fewest do. TRI_USAGE when an axis is missing, unknown or repeated. */
tri_status tri__mesh_set_order(tri_mesh *mesh, const char *text, int per_node);
enum { TRI_MESH_ORDER_TEXT = 16 }; /* bytes */
const char *tri__mesh_order(const tri_mesh *mesh,
                            char out[static TRI_MESH_ORDER_TEXT]); /* "pp,tp,dp", into `out`, which is returned */
const char *tri__axis_name(tri_axis axis);                                              /* "pp" */

int tri__mesh_world(const tri_mesh *mesh);
static inline int tri__mesh_cp(const tri_mesh *mesh) { return mesh->cp > 1 ? mesh->cp : 1; }
static inline int tri__mesh_ep(const tri_mesh *mesh) { return mesh->ep > 1 ? mesh->ep : 1; }
/* Groups of replicas that take different samples, of which each has tri__mesh_cp ranks. */
static inline int tri__mesh_readers(const tri_mesh *mesh) { return mesh->dp / tri__mesh_cp(mesh); }
tri_coords tri__mesh_coords(const tri_mesh *mesh, int rank);
int tri__mesh_rank(const tri_mesh *mesh, tri_coords at);
/* The group of samples that a rank takes, and its place among the ranks that share their tokens. */
static inline int tri__mesh_reader(const tri_mesh *m, int r) { return tri__mesh_coords(m, r).dp / tri__mesh_cp(m); }
static inline int tri__mesh_context(const tri_mesh *m, int r) { return tri__mesh_coords(m, r).dp % tri__mesh_cp(m); }
/* A rank's place among those that share experts. */
static inline int tri__mesh_expert(const tri_mesh *m, int r) { return tri__mesh_coords(m, r).dp % tri__mesh_ep(m); }

/* The group of `rank` along a set of axes: all ranks that agree with it on the other axes, into ranks
 * [tri__mesh_group_size]. They are in the order of their coordinates on the set's axes, the outermost axis of the
 * mesh's order slowest; this is ascending order. Returns how many. */
int tri__mesh_group(const tri_mesh *mesh, int rank, unsigned axes, int *ranks);
int tri__mesh_group_size(const tri_mesh *mesh, unsigned axes);
int tri__mesh_group_place(const tri_mesh *mesh, int rank, unsigned axes); /* place of `rank` in its group */
/* The rank at a place of `rank`'s group. */
int tri__mesh_group_rank(const tri_mesh *mesh, int rank, unsigned axes, int place);

/* The rank with the same coordinates except `at` on `axis`; -1 when `at` is out of range. */
int tri__mesh_beside(const tri_mesh *mesh, int rank, tri_axis axis, int at);
/* That so many places further: with 1 along pp the next stage's. */
static inline int tri__mesh_step(const tri_mesh *mesh, int rank, tri_axis axis, int steps) {
    return tri__mesh_beside(mesh, rank, axis, tri__mesh_coords(mesh, rank).of[axis] + steps);
}

/* Groups along `axis` whose ranks are on several nodes, when each node holds `per_node` consecutive ranks. */
int tri__mesh_crossing(const tri_mesh *mesh, tri_axis axis, int per_node);
enum { TRI_MESH_ADVICE = 256 }; /* bytes */
/* Advice on tensor groups that cross nodes (`where`: "machine", "island"), with an order that avoids it; "" when none
 * does. Into `out`, which is returned. */
const char *tri__mesh_advice(const tri_mesh *mesh, int per_node, const char *where,
                             char out[static TRI_MESH_ADVICE]);
