/* merged_profiles.h - the profiles of a run's ranks (profile-rank<r>.json, train/record/profile.h) as one. Seconds are
 * of one step.
 *
 *   world, n, steps  ranks of the run; those with a profile; [first, last] recorded step of the first of them
 *   seconds      of a step, the mean over ranks
 *   parts        {compute, copies, transfers, waiting, loader, other}: mean over ranks
 *   ranks        [{rank, coords, device, seconds, parts, shares, clock, memory}]
 *   operations   [{name, calls, seconds, flops, bytes}]: mean over ranks, costliest first
 *   modules      a tree of {name, parameters, flops, seconds, children}: seconds are the mean over ranks, flops and
 *                parameters those of all ranks (parameters of one replica)
 *   transfers    [{kind, count, bytes, seconds, exposed_seconds, waiting_seconds}]: mean over ranks, costliest first
 *   memory       {class: {planned, held, peak}}: of the rank that holds most, which is memory_rank
 *   timeline     {step, seconds, left_out, ranks: [{rank, coords, legs: [[kind, mb, begin, end]], transfers: [[kind,
 *                begin, end]]}]}: of the last recorded step that all ranks have; 0 is its earliest begin. left_out:
 * boxes that were too many */
#ifndef TRI_REPORT_RUNS_MERGED_PROFILES_H
#define TRI_REPORT_RUNS_MERGED_PROFILES_H

#include "base/json.h"

/* profiles: objects of the files. A new reference; NULL: out of memory. legs: most boxes of the timeline. */
tri_json *tri__profiles_merge(const tri_json *profiles, int legs);

#endif
