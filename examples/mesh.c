/* mesh.c - the grid of ranks with libtrident: each rank's coordinates, groups and neighbours, and of a configuration
 * which part of a parameter it holds.
 *   mesh --world-size 8 --pp-size 2 --tp-size 2
 *   mesh --config configs/reviews.json --world-size 8 --pp-size 2 --tp-size 2 --shard zero3 */
#include <trident_mesh.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(tri_status status) {
    if (status != TRI_OK) fprintf(stderr, "mesh: %s\n", tri_error());
    return status != TRI_OK;
}

static tri_status print_rank(const tri_mesh *mesh, int rank, int *members) {
    static const char *const axes[] = {"pp", "tp", "dp", "dp,tp"};
    printf("rank %d: pp=%d tp=%d dp=%d, next stage %d, groups", rank, tri_mesh_coordinate(mesh, rank, "pp"),
           tri_mesh_coordinate(mesh, rank, "tp"), tri_mesh_coordinate(mesh, rank, "dp"),
           tri_mesh_neighbour(mesh, rank, "pp", 1));
    for (int i = 0; i < 4; i++) {
        int n;
        tri_status status = tri_mesh_group(mesh, rank, axes[i], members, &n);
        if (status != TRI_OK) return status;
        printf(" %s {", axes[i]);
        for (int k = 0; k < n; k++) printf("%s%d", k ? " " : "", members[k]);
        printf("}");
    }
    printf("\n");
    return TRI_OK;
}

/* The first matrix of the rank's: its stage, its box, and how much of that the rank keeps. */
static tri_status print_matrix(tri_plan *plan, int rank) {
    tri_parameter *held;
    int n, i = 0;
    tri_status status = tri_plan_parameters(plan, rank, &held, &n);
    if (status != TRI_OK) return status;
    while (i < n && held[i].dims != 2) i++;
    if (i < n)
        printf("    %d parameters from %s on; of %s [%lld,%lld], stage %d, rows %lld + %lld, columns %lld + %lld, "
               "elements %lld to %lld of these\n",
               n, held[0].unit, held[i].name, (long long)held[i].shape[0], (long long)held[i].shape[1], held[i].stage,
               (long long)held[i].start[0], (long long)held[i].extent[0], (long long)held[i].start[1],
               (long long)held[i].extent[1], (long long)held[i].begin, (long long)held[i].end);
    free(held);
    return TRI_OK;
}

int main(int argc, char **argv) {
    const char *const *options = (const char *const *)argv + 1;
    tri_mesh *made = NULL;
    tri_plan *plan = NULL;
    int has_model = 0;
    for (int i = 1; i < argc; i++) has_model |= strncmp(argv[i], "--config", 8) == 0;
    tri_status status = has_model ? tri_plan_open(argc - 1, options, &plan) : tri_mesh_open(argc - 1, options, &made);
    if (failed(status)) return status;
    const tri_mesh *mesh = has_model ? tri_plan_mesh(plan) : made;
    int *members = (int *)malloc((size_t)tri_mesh_ranks(mesh) * sizeof *members);
    for (int rank = 0; rank < tri_mesh_ranks(mesh) && members && status == TRI_OK; rank++) {
        status = print_rank(mesh, rank, members);
        if (status == TRI_OK && plan) status = print_matrix(plan, rank);
    }
    failed(status);
    free(members);
    tri_plan_close(plan);
    tri_mesh_close(made);
    return status;
}
