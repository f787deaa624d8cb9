/* profile.h - the recorded steps of one rank as JSON: the content of profile-rank<r>.json.
 *
 * Every run records a few steps after its first ones (train/record/recorder.h); ranks below TRI_PROFILED_RANKS, and
 * with --profile all ranks, write this file when the last of them is done, again about every minute, and at the end of
 * the run. Times are seconds, sizes bytes, all of one step: the mean of the recorded ones. Keys that do not apply are
 * left out; lists may be empty.
 *
 *   format       1
 *   rank, world  and coords {"pp", "tp", "dp"}: this rank's place in the mesh
 *   device       the device, for people
 *   steps        [first, last] recorded step, as in metrics.jsonl
 *   kinds        {KIND: steps} of the recorded steps, where a run has several kinds (plan/step_kinds.h)
 *   seconds      of a step on this rank: from asking for the batch to the end of the update
 *   parts        {"compute", "copies", "transfers", "waiting", "loader", "other"}: seconds; their sum is `seconds`.
 *                copies: inputs into the device's memory, and offloading. transfers: inside posts and waits of
 *                transfers while data moves. waiting: inside waits for other ranks (of a GPU's own transfers this
 *                cannot be told apart, and is part of transfers). loader: waiting for the batch. other: the host, and
 *                a GPU without work
 *   operations   [{"name", "calls", "seconds", "flops", "bytes"}], costliest first, without transfers; flops and bytes
 *                are those of the operations' formulas
 *   modules      a tree of {"name", "parameters", "flops", "seconds", "children"}: the model; the branches (primary,
 *                secondary, tabular, fusion) and `step` (work of no unit); units (embeddings, layer.0, ..., pooling);
 *                in each unit the families of operations (attention, products, norms, embedding, elementwise, update).
 *                Forward, backward and update together, recomputation included; transfers not. parameters: those of
 *                the units that this rank computes, its share of split ones. A node is the sum of its children
 *   transfers    [{"kind", "count", "bytes", "seconds", "exposed_seconds", "waiting_seconds"}] by kind: send, recv,
 *                all_reduce, ..., control (the hosts' record), copy (to and from offload memory). bytes: sent by this
 *                rank. seconds: in flight, from post to the end of the wait, overlapping ones of a kind counted once.
 *                exposed_seconds: inside posts and waits. waiting_seconds: the part of exposed_seconds spent waiting
 *                for others
 *   memory       {CLASS: {"planned", "held", "peak"}, ...} for each class of memory in use, then "total": planned by
 *                the training program; allocated (other programs may need more); most bytes of live slots at any
 *                instruction. And "process": {"held", "max_rss", "device"}: memory that the allocator holds, the
 *                largest resident set so far, and bytes in use on the device by all processes (GPUs only)
 *   timeline     {"step", "begin", "end", "legs", "transfers"} of the last recorded step, on the clock that all ranks
 *                share (see clock). legs: [[KIND, microbatch, begin, end], ...] with KIND F forward, B backward (of
 *                inputs, or of both), W gradients of weights, U update; microbatch -1: the whole step. transfers:
 *                [[KIND, begin, end], ...] as in `transfers`, in the order of posts
 *   clock        {"offset", "uncertainty", "end": {"at", "drift", "uncertainty"}}: offset was added to this machine's
 *                clock to get rank 0's; measured at the start of the run, which is time 0 of the shared clock, and
 *                wrong by at most `uncertainty`. Ranks of rank 0's machine: both 0. end, once the run has ended: at
 *                time `at` the offset was larger by `drift`
 *   shares       {"steps", "seconds", "loader", "transfers", "waiting"}: steps of this process so far, their time on
 * this rank, and the shares of it; without validation and checkpoints */
#pragma once

#include "train/record/recorder.h"

enum { TRI_PROFILED_RANKS = 64 };

/* The object above, of what the recorder holds, without `shares` and clock.end; new reference. */
tri_status tri__profile_json(const tri_recorder *recorder, tri_json **out);
