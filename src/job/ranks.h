/* ranks.h - the ranks of a run: starting those of this machine, and being one. */
#pragma once

#include "comm/launchers/environment.h"
#include "comm/world/world.h"
#include "job/parent.h"
#include "job/supervisor.h"
#include "settings/settings.h"

/* starts.c.
 *
 * Starts the ranks, each this program with the same arguments, and waits for all. A failure is printed and written to
 * error.json in `folder` (NULL: nowhere). After a crash the ranks are restarted, at most --max-restarts times, with
 * TRI_RESUME_VARIABLE set once they have committed a checkpoint. Of `what`, the caller sets heap_bytes, stopping and
 * stopping_early. */
#define TRI_RESUME_VARIABLE "TRIDENT_RESUME"
tri_status tri__start_ranks(const tri_parent *parent, const tri_settings *settings, const char *folder,
                            tri_supervised what);

/* machines.c: the equivalent mpirun and srun command lines, with the user's arguments, as two lines. */
void tri__tell_machines(const tri_parent *parent, const tri_settings *settings);

/* rank.c: joining the others, going on with those that are left, and leaving, with a failure reported exactly once.
 *
 * A rank of an elastic run (launch->socket >= 0) that was started again joins the next world; if the run ends before it
 * has one, *world stays NULL, with TRI_OK: nothing is left to do. */
tri_status tri__rank_join(const tri_parent *parent, const tri_settings *settings, const tri_launch *launch,
                          tri_world **world);
/* Of a rank of an elastic run, after its training returned `status`: another rank's failure ((*world)->failed), or
 * TRI_STOPPED because all ranks agreed to leave ((*world)->regroups). Leaves and closes *world, and waits for what the
 * supervisor decides. *again 1: *world is the next one, all its ranks have met, and the training goes on; its control
 * page has the mesh (stages, replicas), and world->before the memory of an earlier world with complete replicated
 * state, if any. *again 0: *world is NULL and the rank ends: with `status` and its text, or TRI_STOPPED when a stop was
 * requested meanwhile. In any other case (no elastic run, this rank's own failure) like tri__rank_leave. Under MPI
 * with ULFM ((*world)->outlives) the ranks decide themselves, and training that ended (TRI_OK) has to leave like this,
 * too: a rank may die before all have. settings: as asked for, with the first mesh. */
tri_status tri__rank_regroup(const tri_parent *parent, const tri_settings *settings, const tri_launch *launch,
                             tri_status status, tri_world **world, int *again);
/* A rank whose command fails with `status`, which is returned, before it joins: under MPI the others are told, and one
 * of the ranks that fail alike prints it. Without effect elsewhere. */
tri_status tri__rank_refuse(const tri_parent *parent, tri_status status);
/* Leaves with `status`, which is returned. A failure becomes that of all ranks and is printed once. Accepts NULL. */
tri_status tri__rank_leave(const tri_parent *parent, const tri_launch *launch, tri_world *world, tri_status status);
