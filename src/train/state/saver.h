/* saver.h - a checkpoint on its way to disk. Every rank writes the pieces it owns; all vote; the first rank commits;
 * all learn the result.
 *
 * With `background` a step only waits for a copy of the pieces in memory, and threads write the copy. Threads call no
 * collectives, since groups belong to the training thread. tri__saver_advance, which the loop calls between steps,
 * takes the votes. */
#pragma once

#include "checkpoint/memory.h"
#include "comm/world/world.h"

typedef struct tri_saver tri_saver;

/* A checkpoint: all but its pieces. Takes ownership of the objects, even on failure; context and folder outlive the
 * save. */
typedef struct tri_save_spec {
    tri_checkpoint_out out;
    int keep;                  /* checkpoints to keep, in addition to the best */
    int best;                  /* 1: it becomes the best one */
} tri_save_spec;
void tri__save_spec_free(tri_save_spec *what); /* of one that no saver has taken */

typedef enum tri_save_result {
    TRI_SAVE_NONE,     /* nothing is in flight */
    TRI_SAVE_PENDING,
    TRI_SAVE_DONE,     /* committed */
    TRI_SAVE_FAILED    /* abandoned: older checkpoints are unchanged */
} tri_save_result;

/* The result of a save: the same on all ranks. */
typedef struct tri_saved {
    tri_save_result result;
    int64_t step;
    tri_status status;         /* FAILED: why */
    /* FAILED: why; DONE, NONE: a warning about what failed after the last commit ("": nothing; NONE: only on the first
     * rank) */
    char words[1024];
    char folder[TRI_PATH_MAX]; /* DONE: the checkpoint */
} tri_saved;

/* The pieces that this rank owns: borrowed, with their data. world NULL: one rank. TRI_RESOURCE with figures when there
 * is no memory for a copy. */
tri_status tri__saver_open(tri_world *world, const tri_memory_pieces *pieces, int background, tri_saver **out);
/* Waits for its thread; a checkpoint not committed by then is abandoned and removed. Accepts NULL. */
void tri__saver_close(tri_saver *saver);
/* Begins a save; every rank calls it, and none may be in flight. In the background, the pieces may change once it
 * returns. */
tri_status tri__saver_begin(tri_saver *saver, const tri_save_spec *what);
/* Advances a save, with `wait` to its end; every rank makes the same calls. Fails only when communication fails. With
 * `wait` and nothing in flight, it also waits for the removal of older checkpoints. */
tri_status tri__saver_advance(tri_saver *saver, int wait, tri_saved *saved);
