/* signs.h - what the 1-bit optimizers share: replicas sum their momenta as signs (Tang et al., 2021).
 *
 * Copies are the ranks whose gradients of the same elements come from different samples: all replicas, or with hybrid
 * shards those of one place in each run (tri_pass.copies). Each copy i of n keeps the momentum m, which is the same on
 * all of them, and what it has not been able to send yet, the error e_i; each owns a part of the sum, with its error:
 *
 *   e_i += (beta1 * m / n + (1 - beta1) * g_i) / d   momentum_in; summed over the copies: the new momentum
 *   q_i = signs of e_i, e_i -= q_i                   pack, for each owner its part; then all_to_all
 *   s += sum of q_i over the copies                  unpack_sum, of the own part
 *   q = signs of s, s -= q                           pack; then all_gather
 *   m = q * d                                        momentum_out: the owner too takes the value that travelled
 *
 * d is an element's own unit, sqrt(v) + eps, where the variance v is frozen; else 1, as published. A block has one
 * scale: among elements of different sizes it is noise for the small ones, which the step along m / sqrt(v) makes
 * large. (DeepSpeed's 1-bit LAMB gives each parameter a unit, for the same reason.) All replicas then hold v.
 *
 * Copies that take local steps (0/1 Adam) add their own momenta to e_i instead, weighted by the share of the step's
 * rate in that of all steps until they synchronise (momentum_alone), so that m is then the mean momentum since the last
 * time.
 *
 * So copies never drift, and what coding leaves out is sent later. A block of 256 elements has one scale, the mean of
 * their magnitudes: it contracts any vector (|x - q|^2 <= (1 - 1/256) |x|^2), all that the published proof asks for.
 * An element whose momentum is 0 when signs begin to travel has never had a gradient: it is masked from then on, since
 * noise of the size of its block's scale, divided by a variance of 0, would move it without bound. */
#pragma once

#include "plan/optimizer.h"

/* Consecutive units whose momenta and errors are contiguous, so that one exchange covers them. */
typedef struct tri_sign_bucket {
    int first, n;          /* units */
    int64_t count;         /* elements */
    int m, v, e;           /* slots [1, count]; v -1: none */
} tri_sign_bucket;

/* Elements of a bucket that one exchange sums: all, or, where ranks share layers, one unit's split or replicated ones.
 * (Blocks that hold both would give the replicated ones another scale on each of these ranks.) */
typedef struct tri_sign_message {
    int bucket;
    tri_range part;        /* of the bucket's elements */
    tri_range own;         /* of part: those that this rank sums */
    int state;             /* that holds the sum's error */
    int sum;               /* slot of that error [1, own] */
    int out, in;           /* slots: each owner's part of this copy's signs, and each copy's of the own part */
    int code, all;         /* those of the sum's own part, and of all parts */
} tri_sign_message;

typedef struct tri_signs {
    tri_updating *up;
    int m, v;              /* states: the momentum, and the variance whose root is its unit; -1: the unit is 1 */
    int n, place;          /* copies, this one */
    int64_t *unit_at;      /* [n_units] first element in the bucket */
    tri_sign_bucket *bucket;
    tri_sign_message *message;
    int n_buckets, cap_buckets, n_messages, cap_messages;
} tri_signs;

/* Makes the slots of state `m`, and of `v` unless it is -1, and the states of errors. The pass has several copies. */
void tri__signs_open(tri_signs *s, tri_updating *up, int m, int v);
/* zero1 to zero3: brings the owners' parts of m and v, which full steps update, to all replicas. */
void tri__signs_gather(tri_signs *s);
/* Replaces m by that of the next step, with the gates of up->build. In steps of the kinds `own` copies add their own
 * momenta: alone, or to meet. */
void tri__signs_exchange(tri_signs *s, uint32_t own);

/* For a run of an optimizer whose first two states are the moments: the momentum of a single copy, which has nothing to
 * exchange; the weights' step with a variance that stays as it is. */
void tri__run_momentum(tri_updating *up, const tri_run *run);
void tri__run_frozen(tri_updating *up, const tri_run *run);
