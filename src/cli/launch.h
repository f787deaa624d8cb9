/* launch.h - commands that run on ranks: starting ranks, joining them, and reporting a failure exactly once. */
#ifndef TRI_CLI_LAUNCH_H
#define TRI_CLI_LAUNCH_H

#include "cli/cli.h"
#include "comm/start/environment.h"

/* Detects the launcher of this process and takes sizes from it into the settings. TRI_USAGE if they contradict the
 * options, or if several machines are requested without MPI; then the command lines to use are printed. */
tri_status tri__launch_resolve(tri_cli *cli, tri_settings *settings, tri_launch *launch);
/* 1: this process must start the ranks; 0: it is a rank, or runs alone. */
int tri__launch_starts(const tri_settings *settings, const tri_launch *launch);
/* Whether this process prints messages that all processes of a job would print: rank 0 of those started by an external
 * launcher; never a rank started by `trident`, which has already printed them. */
int tri__launch_speaks(char *(*lookup)(const char *name));
/* Starts the ranks, each this program with the same arguments, and waits for all. A failure is printed and written to
 * error.json in `folder`. After a crash the ranks are restarted, at most --max-restarts times, with TRI_RESUME_VARIABLE
 * set once they have committed a checkpoint. heap_bytes: limit of each rank's shared heap; 0: the machine's memory. */
#define TRI_RESUME_VARIABLE "TRIDENT_RESUME"
tri_status tri__launch_start(tri_cli *cli, const tri_settings *settings, const char *folder, size_t heap_bytes);
/* Joins as a rank. *world stays NULL if no launcher started this process. Sets a rank's threads if not given; rank 0
 * prints launcher, mesh, batch, transport and device. */
tri_status tri__launch_join(tri_cli *cli, tri_settings *settings, const tri_launch *launch, size_t heap_bytes,
                            tri_world **world);
/* Leaves with `status`, which is returned. A failure becomes that of all ranks and is printed once. Accepts NULL. */
tri_status tri__launch_leave(tri_cli *cli, const tri_launch *launch, tri_world *world, tri_status status);

/* A command that predicts: starts the ranks that the settings ask for, or joins them, or neither, and calls `run` on
 * each, with its world (NULL: one rank). */
tri_status tri__launch_infer(tri_cli *cli, tri_settings *settings,
                             tri_status (*run)(tri_cli *cli, const tri_settings *settings, tri_world *world,
                                               void *context),
                             void *context);

/* machines.c: prints the equivalent mpirun and srun command lines, with the user's arguments, to cli->err. */
void tri__print_machines(tri_cli *cli, const tri_settings *settings);

#endif
