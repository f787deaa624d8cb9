/* launch.h - commands that run on ranks: who starts the ranks, how a process becomes one of them, and how a failure is
 * shown once. */
#ifndef TRI_CLI_LAUNCH_H
#define TRI_CLI_LAUNCH_H

#include "cli/cli.h"
#include "comm/start/environment.h"

/* Who launched this process, and what follows for the settings: sizes from the launcher. TRI_USAGE where it disagrees
 * with the options, and where several machines are asked for without MPI: then the lines that would do it are
 * printed. */
tri_status tri__launch_resolve(tri_cli *cli, tri_settings *settings, tri_launch *launch);
/* 1: this process is to start the ranks; 0: it is one, or alone. */
int tri__launch_starts(const tri_settings *settings, const tri_launch *launch);
/* Of the processes that have one command line, does this one speak? Of those that a launcher started the first does;
 * our own has spoken before it starts any. */
int tri__launch_speaks(char *(*lookup)(const char *name));
/* Starts the ranks, each this program with the same arguments, and waits for all. A failure is shown, and written to
 * error.json in `folder`; after a crash they are started again, --max-restarts times, with TRI_RESUME_VARIABLE set once
 * they have committed a checkpoint. heap_bytes: shared heap of each rank; 0: up to the machine's memory. */
#define TRI_RESUME_VARIABLE "TRIDENT_RESUME"
tri_status tri__launch_start(tri_cli *cli, const tri_settings *settings, const char *folder, size_t heap_bytes);
/* Becomes a rank. *world stays NULL where nobody launched this process. Sets the threads of a rank where they are left
 * out; rank 0 says launcher, mesh, batch, transport and device. */
tri_status tri__launch_join(tri_cli *cli, tri_settings *settings, const tri_launch *launch, size_t heap_bytes,
                            tri_world **world);
/* Ends being a rank with `status`, which is returned: a failure becomes that of all ranks, and is said once. Accepts
 * NULL. */
tri_status tri__launch_leave(tri_cli *cli, const tri_launch *launch, tri_world *world, tri_status status);

/* machines.c: the mpirun and srun lines of the same run, with the user's own arguments, to cli->err. */
void tri__print_machines(tri_cli *cli, const tri_settings *settings);

#endif
