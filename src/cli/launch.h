/* launch.h - commands that run on ranks: starting ranks, joining them, and reporting a failure exactly once. */
#pragma once

#include "cli/cli.h"
#include "job/ranks.h"

/* This process as the parent of what it starts, as `cli` is now. */
const tri_parent *tri__cli_parent(tri_cli *cli);
/* Detects the launcher of this process and takes sizes from it into the settings. TRI_USAGE if they contradict the
 * options, or if several machines are requested without MPI; then the command lines to use are printed. */
tri_status tri__launch_resolve(tri_cli *cli, tri_settings *settings, tri_launch *launch);
/* 1: this process must start the ranks; 0: it is a rank, or runs alone. */
int tri__launch_starts(const tri_settings *settings, const tri_launch *launch);
/* Whether this process prints messages that all processes of a job would print: rank 0 of those started by an external
 * launcher; never a rank started by `trident`, which has already printed them. */
int tri__launch_speaks(char *(*lookup)(const char *name));
/* Starts the ranks that the settings ask for (job/ranks.h); heap_bytes: as of tri_supervised. */
tri_status tri__launch_start(tri_cli *cli, const tri_settings *settings, const char *folder, size_t heap_bytes);
/* Joins as a rank. *world stays NULL if no launcher started this process. Sets a rank's threads if not given; rank 0
 * prints launcher, mesh, batch, transport and device. Otherwise like tri__rank_join. */
tri_status tri__launch_join(tri_cli *cli, tri_settings *settings, const tri_launch *launch, tri_world **world);
/* Where no threads were asked for (0): those of OMP_NUM_THREADS, or a fair share of the cores of the world's ranks. */
void tri__launch_threads(tri_cli *cli, tri_settings *settings, const tri_world *world);

/* A command that predicts: starts the ranks that the settings ask for, or joins them, or neither, and calls `run` on
 * each, with its world (NULL: one rank), its number, and a log to stderr, which of all but rank 0 has warnings only. */
typedef tri_status tri_infer_run(tri_cli *cli, const tri_settings *settings, tri_world *world, int rank,
                                 const tri_log *log, void *context);
tri_status tri__launch_infer(tri_cli *cli, tri_settings *settings, tri_infer_run *run, void *context);

/* folds.c: the trainings of --folds, --seeds or --stack, and their table. */
tri_status tri__train_several(tri_cli *cli, const tri_command_call *call);
/* One training in the folder of several is refused: eval and predict would take those. */
tri_status tri__several_refuse(const tri_settings *settings);

/* retrain.c: the trainings of `explain --importance --retrain`. Sets in `how`: folder; whole, the model with all
 * inputs; changed, {key: value} of the run's configuration; inputs, {input: {folder}, or {why} there is none};
 * config. */
tri_status tri__retrain(const tri_parent *parent, const tri_settings *settings, tri_json *how);

/* auto_layout.c, `train --layout auto`: one layout for all ranks of a run.
 *
 * With --layout auto: sets the layout's options and the batch. It is that of the checkpoint that the run continues, if
 * that one chose it for as many ranks; else the first choice of a search. A process that starts ranks passes it to them
 * in TRI_LAYOUT_VARIABLE, through cli->environment; ranks that an MPI launcher started take rank 0's (`world`; NULL:
 * not joined yet, and nothing happens). Whoever chose says so. Then settles the batch of a continued run and checks the
 * options; without --layout auto that is all. */
#define TRI_LAYOUT_VARIABLE "TRIDENT_LAYOUT"
tri_status tri__cli_layout(tri_cli *cli, tri_settings *settings, const tri_launch *launch, tri_world *world);

/* elastic.c, `train --elastic`: which meshes are possible with the ranks that are left.
 *
 * What --elastic means under this launcher: rank 0, or the process that starts the ranks, says it in one line.
 * TRI_USAGE where --replicate-state or --min-ranks could not be honoured. */
tri_status tri__elastic_check(tri_cli *cli, const tri_settings *settings, const tri_launch *launch);
/* For tri_supervised: how many of `alive` ranks the best mesh that can be planned uses, and its stages and replicas; 0:
 * there is none. settings: tri_settings of the run. */
int tri__elastic_fit(void *settings, int alive, int32_t *stages, int32_t *replicas);
