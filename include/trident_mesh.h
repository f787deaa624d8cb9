/* trident_mesh.h - the grid of ranks: its axes, groups, coordinates and neighbours, and which part of which parameter a
 * plan gives to each rank. Arithmetic alone: any rank of any mesh can be asked about anywhere.
 *
 *     tri_mesh_open(2, (const char *const[]){"--world-size=8", "--tp-size=2"}, &mesh);
 *     int ranks[8], n;
 *     tri_mesh_group(mesh, tri_world_rank(world), "tp", ranks, &n);
 *     tri_group_make(world, n, ranks, &group);         trident_comm.h
 *
 * Axes are named pp (stages of a pipeline), tp (ranks that share layers), dp (replicas), cp (ranks that share tokens)
 * and ep (replicas that share experts: runs of neighbours of dp). examples/mesh.c is a complete program. */
#ifndef TRIDENT_MESH_H
#define TRIDENT_MESH_H

#include "trident.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tri_mesh tri_mesh;

/* Options of `trident mesh`: "--world-size=16", "--pp-size=2", "--mesh-order=pp,dp,tp", ... */
TRI_API tri_status tri_mesh_open(int n_options, const char *const *options, tri_mesh **mesh);
TRI_API void tri_mesh_close(tri_mesh *mesh); /* accepts NULL */
TRI_API int tri_mesh_ranks(const tri_mesh *mesh); /* in all */
/* Ranks along an axis; 0: there is no such axis. The sizes of pp, tp, dp and cp multiply to the ranks. */
TRI_API int tri_mesh_size(const tri_mesh *mesh, const char *axis);
/* A rank's place along an axis, from 0; -1: there is no such axis, or rank. */
TRI_API int tri_mesh_coordinate(const tri_mesh *mesh, int rank, const char *axis);
/* The rank `steps` places further along an axis (1 along pp: the next stage), otherwise where `rank` is; -1: beyond the
 * ends. */
TRI_API int tri_mesh_neighbour(const tri_mesh *mesh, int rank, const char *axis, int steps);
/* The ranks that differ from `rank` along these axes at most ("tp", "dp,cp"), itself among them, in ascending order,
 * into ranks [tri_mesh_ranks], and how many. TRI_USAGE for an unknown axis or rank. */
TRI_API tri_status tri_mesh_group(const tri_mesh *mesh, int rank, const char *axes, int *ranks, int *n);

/* The mesh of a plan, until that is closed. */
TRI_API const tri_mesh *tri_plan_mesh(const tri_plan *plan);

enum { TRI_PARAMETER_DIMS = 3 };
/* A parameter on a rank. Tensor and expert parallelism cut a box out of it; replicas may shard that box as a run of its
 * elements. */
typedef struct tri_parameter {
    const char *name;                /* primary.encoder.layer.0.output.dense.weight */
    const char *unit;                /* primary.layer.0 */
    int stage;                       /* of the pipeline */
    int dims;
    int64_t shape[TRI_PARAMETER_DIMS];                             /* of the whole */
    int64_t start[TRI_PARAMETER_DIMS], extent[TRI_PARAMETER_DIMS]; /* of the box */
    int64_t begin, end;              /* elements of the box, row by row, that the rank keeps between steps */
} tri_parameter;
/* Those of the stages that a rank holds, in the order of its memory. The caller frees *parameters; the names are valid
 * until the plan is closed. */
TRI_API tri_status tri_plan_parameters(tri_plan *plan, int rank, tri_parameter **parameters, int *n);

#ifdef __cplusplus
}
#endif
#endif
