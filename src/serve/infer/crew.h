/* crew.h - the ranks of a server. Rank 0 has the requests; the others hold their parts of each model and follow.
 *
 * An engine's orders (engine/server_ranks.h) go through its own program, so followers listen to one engine at a time.
 * The order RELOAD tells them that a command follows: to open a model, to listen to another one, to close one, to end.
 * Commands, runs and an idle order every second are serialised by a lock; any number of models may share the ranks. */
#pragma once

#include "serve/infer/limits.h"

/* Rank 0's side of a world of several ranks. The others call tri__crew_follow. */
tri_status tri__crew_open(tri_world *world, tri_crew **out);
/* Ends the other ranks' tri__crew_follow. All models are closed before. Accepts NULL. */
void tri__crew_close(tri_crew *crew);
tri_world *tri__crew_world(const tri_crew *crew);

/* All ranks plan, allocate and load `opened`, which rank 0 has read; *slot names it. A folder that another rank cannot
 * read, and a plan that does not fit into memory, are refused; any other failure is that of the crew. */
tri_status tri__crew_add(tri_crew *crew, tri_opened *opened, const tri_batching *batching, int *slot);
/* tri__opened_close on all ranks. Keeps the text of an earlier failure. */
void tri__crew_drop(tri_crew *crew, int slot, tri_opened *opened);
/* Computes [tri__batching_parts] microbatches. After a failure of any rank, every call fails with its reason. */
tri_status tri__crew_run(tri_crew *crew, int slot, const tri_feed *feed);

/* Every other rank: holds its part of each model until rank 0 closes the crew. asked, batching: as rank 0's. */
tri_status tri__crew_follow(tri_world *world, const tri_settings *asked, const tri_batching *batching);
