/* together.h - the beginning of a run whose ranks another launcher started, maybe on several machines. */
#ifndef TRI_TRAIN_TOGETHER_H
#define TRI_TRAIN_TOGETHER_H

#include "comm/world/world.h"

/* All ranks tell each other how their first checks ended (`mine`, tri_error()): if one failed, its failure is that of
 * all, naming rank and machine, or no rank if all failed alike. On several machines they then prove that the run folder
 * is one that all of them see: TRI_IO naming two machines otherwise. Of ranks with a supervisor, and in a world that
 * follows others, `mine` is returned. world NULL: one process. */
tri_status tri__begin_together(tri_world *world, const char *folder, tri_status mine);

#endif
