/* trainings.h - several trainings under one command (--folds, --seeds, a search): each is `trident train` with some
 * options changed, a fresh execution of this program with a run folder of its own. It starts its ranks, resumes, and
 * finds out that it had finished exactly as if it were started by hand. */
#pragma once

#include "base/file.h"
#include "job/parent.h"
#include "settings/settings.h"

#include <sys/types.h>

/* An option of a training that differs from the command line. */
typedef struct tri_change {
    const char *name;  /* as in its row: "output_dir" */
    const char *value; /* NULL, of the last: it is left out */
} tri_change;

typedef struct tri_training {
    char name[64];               /* for messages: "fold 2" */
    char folder[TRI_PATH_MAX];   /* its --output-dir */
    char log[TRI_PATH_MAX];      /* file that its output is appended to; "": this process's stderr */
    int silent;                  /* 1: its results, which go to stdout, are dropped */
    char **argv;                 /* tri__training_argv; freed with free() */
    int code;                    /* its exit code, 128 + signal of one that was killed; -1: not yet ended */
    pid_t pid;                   /* 0: it does not run */
    int pidfd;
    int told;                    /* 1: the signal was passed on to it */
} tri_training;
static inline void tri__training_free(tri_training *t) { free(t->argv); }

/* The row of an option as it is written on the command line: by our name, or another program's; NULL: none. */
const tri_option *tri__argument_row(const char *argument);
/* `trident train` with the n options of args, in which changed ones are replaced. One allocation; NULL: out of
 * memory. */
char **tri__training_argv(const tri_parent *parent, int n, const char *const *args, const tri_change *changes,
                          int n_changes);
/* Starts it. It ends with this process. Must be called from the main thread. */
tri_status tri__training_begin(const tri_parent *parent, tri_training *training);
/* Waits until one of those that run ends: its index; -1: none runs. The first signal (parent->stop) is passed on to all
 * of them: each then ends with TRI_STOPPED, or as its last step says. */
int tri__training_wait(const tri_parent *parent, tri_training *trainings, int n);
/* TRI_OK, or the failure of one that has ended, naming it. */
tri_status tri__training_status(const tri_training *training);
/* All of them, one after the other, up to the first that fails or is stopped. quiet: none is announced. */
tri_status tri__trainings_run(const tri_parent *parent, tri_training *trainings, int n, int quiet);
/* TRI_USAGE under mpirun, srun or torchrun, which start ranks and not trainings; `option` is what asks for several. */
tri_status tri__trainings_accept(char *(*lookup)(const char *name), const char *option);

/* The figures of a finished training's best validation, from its summary.json: {name: number or null}; a new reference,
 * NULL where it had no validation. */
tri_status tri__training_figures(const tri_training *training, tri_json **out);
