/* elastic.c - what --elastic means for a run, and the meshes of one that goes on with other ranks. */

#include "cli/launch.h"
#include "comm/mpi/load.h"
#include "engine/accept_settings.h"
#include "study/study.h"

/* Whether other stages can be planned: there may be too few layers, or too few microbatches. */
static int is_possible(const tri_settings *asked, const tri_elastic_mesh *mesh) {
    tri_settings s = tri__elastic_settings(asked, mesh->stages, mesh->replicas);
    tri_log silent = {0};
    TRI_OWNED(tri__study_drop) tri_study *study = calloc(1, sizeof *study); /* large */
    TRI_KEEP_WORDS();
    if (!study || tri__engine_accept(&s) != TRI_OK) return 0;
    study->runs = 1;
    return tri__study_open(&s, &silent, NULL, s.output_dir, study) == TRI_OK;
}

int tri__elastic_fit(void *settings, int alive, int32_t *stages, int32_t *replicas) {
    enum { MESHES = 16 };
    tri_elastic_mesh mesh[MESHES];
    int n = tri__elastic_meshes(settings, alive, mesh, MESHES);
    for (int i = 0; i < n; i++)
        if (mesh[i].stages == ((const tri_settings *)settings)->pp_size || is_possible(settings, &mesh[i])) {
            *stages = mesh[i].stages, *replicas = mesh[i].replicas;
            return mesh[i].ranks;
        }
    return 0;
}

/* Which part of the mesh a death takes along, besides the rank. */
static const char *group_of(const tri_settings *s) {
    if (s->tp_size > 1) return "a tensor";
    if (s->cp_size > 1) return "a context";
    return s->ep_size > 1 ? "an expert" : NULL;
}

static void say_here(tri_cli *cli, const tri_settings *s, const char *how) {
    const char *group = group_of(s);
    fprintf(cli->err, "elastic    the ranks that are left go on without the dead%s, %s", how,
            s->replicate_state ? "at the step that was interrupted"
            : s->save_every || s->save_steps
                ? "from the last checkpoint (--replicate-state: at the step that was interrupted)"
                : "from the beginning: checkpoints are off (--replicate-state: at the step that was interrupted)");
    if (group) fprintf(cli->err, "; a death inside %s group takes its replica along", group);
    fputc('\n', cli->err);
}

/* Open MPI's own variable for `mpirun --with-ft ulfm`. */
static int is_tolerant(const tri_cli *cli) {
    const char *enabled = cli->lookup("OMPI_MCA_mpi_ft_enable");
    return enabled && *enabled && strcmp(enabled, "0") && strcmp(enabled, "false");
}

/* The ranks of another launcher end with the first that dies, whatever they would like to do, but under MPI with
 * ULFM. */
static tri_status check_foreign(tri_cli *cli, const tri_settings *s, const tri_launch *launch) {
    int mpi = tri__launcher_has_mpi(launch->launcher), ulfm = mpi && tri__mpi_has_ulfm(launch->mpi);
    int says = tri__launch_speaks(cli->lookup) && !s->quiet;
    const char *name = mpi ? launch->slurm ? "srun" : "mpirun" : "torchrun", *who = mpi ? "MPI" : name;
    if (ulfm && is_tolerant(cli)) {
        if (says) say_here(cli, s, " (by ULFM)");
        return TRI_OK;
    }
    const char *enable = ulfm ? "; its ULFM is off: `mpirun --with-ft ulfm ...` turns it on" : "";
    if (s->replicate_state)
        return tri__fail(TRI_USAGE,
                         "--replicate-state: under %s a rank's death ends all ranks, and with them the memory that "
                         "holds the copies%s; or leave it out, or start the ranks with --nproc-per-node on one machine",
                         name, enable);
    if (!says) return TRI_OK;
    fprintf(cli->err, "elastic    no: this %s ends all ranks when one dies%s; ", who,
            ulfm ? enable : mpi ? " (it is built without ULFM)" : "");
    if (mpi)
        fprintf(cli->err, "`trident supervise --max-restarts N -- %s ...` starts the job again from its last "
                          "checkpoint\n", name);
    else fprintf(cli->err, "its --max-restarts starts all again, and --resume auto goes on from the last checkpoint\n");
    return TRI_OK;
}

tri_status tri__elastic_check(tri_cli *cli, const tri_settings *s, const tri_launch *launch) {
    if (!s->elastic && s->replicate_state)
        return tri__fail(TRI_USAGE, "--replicate-state keeps state for ranks that go on without the dead: give "
                                    "--elastic, too, or leave it out");
    if (!s->elastic && s->min_ranks > 1) /* a recorded configuration gives 1 */
        return tri__fail(TRI_USAGE, "--min-ranks is the fewest ranks to go on with after a death: give --elastic, too, "
                                    "or leave it out");
    if (!s->elastic || launch->launcher == TRI_LAUNCHER_OWN) return TRI_OK;
    if (s->min_ranks > s->world_size)
        return tri__fail(TRI_USAGE, "--min-ranks %lld: the run has only %lld rank%s", (long long)s->min_ranks,
                         (long long)s->world_size, s->world_size == 1 ? "" : "s");
    if (s->sync_every > 1 && s->world_size <= s->pp_size * s->tp_size * s->cp_size) /* later one may be left */
        return tri__fail(TRI_USAGE,
                         "--sync-every %lld: the run begins with one copy of the model, so there is nothing to "
                         "synchronise: leave it out, or take more replicas (--dp-size)", (long long)s->sync_every);
    if (launch->launcher != TRI_LAUNCHER_NONE && launch->size > 1) return check_foreign(cli, s, launch);
    if (s->nproc_per_node > 1) {
        if (!s->quiet) say_here(cli, s, "");
        return TRI_OK;
    }
    if (s->replicate_state)
        return tri__fail(TRI_USAGE, "--replicate-state with one rank: nobody is left to go on with the copies; leave "
                                    "it out, or give --nproc-per-node 2 or more");
    if (!s->quiet)
        fprintf(cli->err, "elastic    one rank: nobody is left to go on when it dies; `trident supervise "
                          "--max-restarts N -- trident train ...` starts it again from its last checkpoint\n");
    return TRI_OK;
}
