/* saver.h - a checkpoint on its way to disk. Every rank writes the pieces it owns; all vote; the first rank commits;
 * all hear whether it did.
 *
 * With `background` a step waits for one copy of the pieces in memory, and threads write the copy: they call no
 * collective, since a group belongs to the thread that trains. The votes are taken by tri__saver_advance, which the
 * loop calls between steps. */
#ifndef TRI_TRAIN_SAVER_H
#define TRI_TRAIN_SAVER_H

#include "checkpoint/checkpoint.h"
#include "comm/world/world.h"

typedef struct tri_saver tri_saver;

/* What a checkpoint holds beside the pieces. The objects are taken over, whatever becomes of it; context and folder
 * outlive the save. */
typedef struct tri_save_spec {
    const char *folder;        /* the run folder */
    int64_t step, sequence;    /* sequence: as of tri_checkpoint_out */
    int keep;                  /* checkpoints that stay, besides the best */
    int best;                  /* 1: it becomes the best one */
    tri_json *config, *preprocessing, *state;
    tri_status (*extras)(void *context, const char *folder); /* as of tri_checkpoint_out */
    void *context;
} tri_save_spec;

typedef enum tri_save_result {
    TRI_SAVE_NONE,     /* nothing is under way */
    TRI_SAVE_PENDING,
    TRI_SAVE_DONE,     /* committed */
    TRI_SAVE_FAILED    /* given up: older checkpoints are as they were */
} tri_save_result;

/* What became of a save: the same on all ranks. */
typedef struct tri_saved {
    tri_save_result result;
    int64_t step;
    tri_status status;         /* FAILED: why */
    char words[1024]; /* FAILED: why; DONE, NONE: what went wrong after the last commit ("": nothing; NONE: on the first
                         rank) */
    char folder[TRI_PATH_MAX]; /* DONE: the checkpoint */
} tri_saved;

/* The pieces that this rank owns: borrowed, with their data. world NULL: alone. TRI_RESOURCE with figures when there is
 * no room for a copy. */
tri_status tri__saver_open(tri_world *world, const tri_piece *weights, int n_weights, const tri_piece *optimizer,
                           int n_optimizer, int background, tri_saver **out);
/* Waits for its thread; what is not committed by then is given up, and removed. Accepts NULL. */
void tri__saver_close(tri_saver *saver);
/* Begins; every rank calls it, and nothing may be under way. In the background the pieces may change when it
 * returns. */
tri_status tri__saver_begin(tri_saver *saver, const tri_save_spec *what);
/* Gets on with what was begun, and with `wait` comes to its end; every rank calls it alike. Fails only when the ranks
 * can no longer talk. When nothing is under way and with `wait`, the older checkpoints have been removed, too. */
tri_status tri__saver_advance(tri_saver *saver, int wait, tri_saved *saved);

#endif
