/* mesh.h - the grid of ranks: named axes, outermost first pp, tp, dp. Pure arithmetic. */
#ifndef TRI_LAYOUT_MESH_H
#define TRI_LAYOUT_MESH_H

#include "base/status.h"

typedef struct tri_mesh {
    int pp, tp, dp; /* sizes; their product is the world size */
} tri_mesh;

typedef struct tri_coords {
    int pp, tp, dp;
} tri_coords;

/* dp = 0 asks for world / (pp * tp). Refuses sizes that do not multiply to `world`, with the numbers. */
tri_status tri__mesh_make(tri_mesh *mesh, int world, int pp, int tp, int dp);
int tri__mesh_world(const tri_mesh *mesh);
/* rank = pp * (TP * DP) + tp * DP + dp */
tri_coords tri__mesh_coords(const tri_mesh *mesh, int rank);
int tri__mesh_rank(const tri_mesh *mesh, tri_coords at);

#endif
