/* choose.h - the search for the fastest layout of a run that fits into memory.
 *
 * The space: all meshes of the world (dp, tp, pp and the order of axes), sharding with its sizes, schedules with their
 * shapes and stages a rank, numbers of microbatches, types of arithmetic, recomputation and offloading. What the user
 * gave stays. The samples of a step are the same for all.
 *
 * A layout is planned and simulated unless a lower bound of its time (study/choose/bound.c) is above the time of one
 * already simulated that it would have to beat; a plan that does not fit is not simulated. So the first choice is that
 * of an enumeration of the whole space. Layouts of one mesh and kind of sharding are a family, of which the fastest is
 * reported. Everything is deterministic, for any number of threads. */
#pragma once

#include "engine/cost/memory_fit.h"
#include "sim/timeline.h"
#include "study/choose/layout_options.h"
#include "study/study.h"

typedef struct tri_choice tri_choice;

typedef struct tri_choose_options {
    int top;            /* families to report */
    int64_t limit;      /* layouts planned at most; 0: no limit */
    int exhaustive;     /* 1: plans and simulates every layout, for tests */
    unsigned precisions; /* 1 << TRI_PRECISION_* or-ed, to search; 0: the settings' */
    int propose;        /* 1: where links bind, fewer bytes are proposed too, apart: they change results */
    int threads;        /* 0: one for each core */
    double deadline;    /* tri__clock() at which the search ends with what it has found, once that is any; 0: none */
    int keeps;          /* 1: a search that is stopped by a signal ends in the same way; 0: it fails */
    void (*progress)(void *context, const tri_choice *so_far); /* after each round of the search; NULL */
    void *context;
} tri_choose_options;

/* What ended a search. Only of a whole one is the first choice proven. */
typedef enum tri_choose_end {
    TRI_CHOOSE_WHOLE, TRI_CHOOSE_LIMIT, TRI_CHOOSE_DEADLINE, TRI_CHOOSE_SIGNAL
} tri_choose_end;

/* A layout that was planned. */
typedef struct tri_candidate {
    tri_layout layout;
    int64_t index;      /* place in the enumeration: the simpler first, which breaks ties */
    double bound;       /* seconds: the step takes at least as long */
    double seconds;     /* of the step; 0: it does not fit, and was not simulated */
    double computing, exposed, waiting; /* seconds of a step, mean of all ranks; waiting: for others */
    double moving[TRI_COLLECTIVE_COUNT]; /* seconds of a step that transfers of a kind take, mean of all ranks */
    double sent;        /* bytes that the rank that sends most sends in a step */
    int64_t need;       /* bytes of the memory that needs most (of a rank, or of a machine's ranks together) */
    int64_t bytes[TRI_MEM_COUNT]; /* by class, of the rank that needs most */
} tri_candidate;

/* A layout with fewer bytes between replicas: an option that changes results. */
typedef struct tri_coded_choice {
    const char *options; /* "--compress-gradients int8", in addition to those of the layout */
    const char *does;    /* one line */
    tri_candidate of;
} tri_coded_choice;

/* The memory that layouts have to fit into. */
typedef struct tri_choose_room {
    int64_t bytes;      /* INT64_MAX: unlimited */
    tri_room_shares by;
    const char *origin; /* "--memory-limit", "of h200x8", "free on this machine" */
} tri_choose_room;

struct tri_choice {
    tri_candidate *best; /* [n_best] of each family, the fastest first; in the arena */
    int n_best;
    tri_coded_choice *coded; /* [n_coded] the fastest first; in the arena */
    int n_coded;
    tri_candidate nearest; /* of those that do not fit, the one that needs least; index -1: all fit */
    tri_choose_room room;
    int64_t global_batch;
    /* Layouts: of the space; refused by the planner; that do not fit; simulated; skipped by their bounds; left when the
     * search ended, of which `doubtful` could be faster than the first choice. While it goes on, `left` are those that
     * wait. */
    int64_t space, refused, unfit, simulated, skipped, left, doubtful;
    tri_choose_end ended;
    int bounds_broken;   /* exhaustive: layouts that were faster than their bound */
    tri_hardware hardware;
};

/* A model and its data, opened once for any number of searches. */
typedef struct tri_chooser {
    tri_settings settings; /* only read: as given, with the hardware's device */
    tri_study study;       /* its plan is not made; engine: for tri__sample_rows */
    tri_arena arena;
    tri_network model;
    tri_network planned[TRI_LAYOUT_PLANS]; /* the model by plans of layers: 0: itself */
    tri_target target;
    const tri_device *device; /* NULL: it is not here, and described by the hardware */
    tri_hardware hardware;
    const tri_stop *stop;
} tri_chooser;

/* runs: 1: for a run on this machine. beside: folder of the token store, NULL: none. `settings` live as long as *out,
 * which the caller closes whatever this returns. */
tri_status tri__chooser_open(const tri_settings *settings, int runs, const tri_log *log, const tri_stop *stop,
                             const char *beside, tri_chooser *out);
void tri__chooser_close(tri_chooser *chooser);
void tri__chooser_drop(tri_chooser **at); /* closes and frees one that was allocated */
/* The best layouts of `world` ranks. TRI_RESOURCE, with the nearest, when none fits; TRI_USAGE when there is none with
 * what is fixed; TRI_STOPPED by a signal, unless there is something to keep. *out is in the chooser's arena, and set in
 * all cases. */
tri_status tri__choose(tri_chooser *chooser, int world, int64_t global_batch, const tri_choose_options *options,
                       tri_choice *out);
/* What others are compared with: samples/s of the first choice for one device with `samples` a step; 0: there is none.
 * What the settings give of the mesh, sharding, compression and microbatches does not count. */
tri_status tri__choose_one(tri_chooser *chooser, int64_t samples, const tri_choose_options *options, double *rate);
/* The layout that the settings give, planned and, if it fits, simulated; out->seconds 0: it does not. TRI_USAGE: it
 * cannot be planned. */
tri_status tri__choose_given(tri_chooser *chooser, int world, int64_t global_batch, tri_candidate *out);
/* The memory that `world` ranks have: --memory-limit; else what the hardware has; else, where no hardware is given,
 * what is free on this machine. */
tri_status tri__choose_room(const tri_chooser *chooser, int world, tri_choose_room *out);
/* The samples of a step that settings ask for: --global-batch-size, or --batch-size on each replica that the world has
 * with the given --pp-size and --tp-size. */
int64_t tri__choose_batch(const tri_settings *settings, int world);

/* "41.2 ms", "3m 07s"; into `out`, which is returned. */
const char *tri__choose_time(double seconds, char out[static 32]);
/* Why `other` takes longer than `best`: one line without the layout's name. Into `out`, which is returned. */
enum { TRI_WHY_TEXT = 256 };
const char *tri__choose_why(const tri_candidate *best, const tri_candidate *other, char out[static TRI_WHY_TEXT]);

/* The fewest ranks that take at most `seconds` for `steps` steps. Numbers of ranks: doubled up to a machine's, then
 * whole machines, doubled; those between the last that is too slow and the first that is not are searched by halves,
 * and the next lower ones are tried as well, since fewer ranks may be faster. TRI_OK also when none is enough. */
typedef struct tri_fewest {
    int world;          /* 0: no number of ranks tried is enough */
    double seconds;     /* of the run with them; else of the fastest that was tried */
    int tried;          /* numbers of ranks */
    int partial;        /* 1: a search was not whole: fewer ranks may be enough */
    int stopped;        /* 1: by a signal, after `world` was found */
    int fastest;        /* the number of ranks with the fastest run that was tried */
    tri_choice choice;  /* for `world`, or for `fastest` */
} tri_fewest;
tri_status tri__choose_fewest(tri_chooser *chooser, int64_t global_batch, double seconds, double steps,
                              const tri_choose_options *options, tri_fewest *out);
