/* tasks.h - the work of a large collective as tasks of 4 to 256 KiB. Members and their helpers claim them by counting
 * up a word of the operation's cells; a task reduces its elements completely, so it does not matter who does it. */
#pragma once

#include "comm/ops/kind.h"
#include "comm/shm/cells.h"
#include "comm/shm/work.h"

/* Bytes of member m's buffer. */
size_t tri__bytes_of(const tri_group *group, const tri_pending *p, tri_buffer_extent extent, int m);

/* Does tasks until all are claimed; after each one, `after` decides with TRI_OK whether to go on. All members must have
 * announced the operation, and agree. *n becomes the number of tasks, *moved 1 if any was done. */
tri_status tri__tasks_do(tri_group *group, const tri_shm_group *shm, const tri_pending *p, tri_status (*after)(void *),
                         void *context, uint32_t *n, int *moved);
/* Tasks that nobody has claimed yet. */
uint32_t tri__tasks_left(const tri_shm_group *shm, const tri_pending *p);
/* Whether all p->tasks tasks are done. */
int tri__tasks_done(const tri_shm_group *shm, const tri_pending *p);
/* After a failure: no more tasks are claimed, and those claimed have ended, or a time limit has passed. */
void tri__tasks_close(const tri_shm_group *shm, const tri_pending *p);
