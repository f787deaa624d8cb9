/* events.h - what a run reports. The loop emits events to a sink; progress lines, metrics files, traces and tables are
 * sinks (src/report/). */
#pragma once

#include "base/log.h"
#include "score/metrics.h"

typedef enum tri_event_kind {
    TRI_EVENT_START,       /* the run is planned and about to begin */
    TRI_EVENT_REGROUP,     /* after START: the run goes on with the ranks that are left, or with more */
    TRI_EVENT_TRAIN,       /* a step was taken */
    TRI_EVENT_EPOCH,       /* an epoch ended; valid holds its validation, when there was one */
    /* a checkpoint is about to be saved: a run that resumes from it does not report its steps again */
    TRI_EVENT_SAVE,
    TRI_EVENT_CHECKPOINT,  /* a checkpoint was committed */
    TRI_EVENT_MESSAGE,     /* a log message or warning */
    TRI_EVENT_ROWS,        /* of a prediction or an evaluation: `step` of `steps` rows are done */
    /* the recorded steps: facts is train/record/profile.h's object, on every rank; spans only with --profile, and only
     * the first time */
    TRI_EVENT_PROFILE,
    TRI_EVENT_END,
    TRI_EVENT_UNCHANGED    /* instead of all others: the run had already ended; nothing is trained or written */
} tri_event_kind;

/* Where a span is drawn. */
typedef enum tri_track {
    TRI_TRACK_COMPUTE,
    TRI_TRACK_LANE,        /* instructions of the second lane; while recorded, they run one after another as well */
    TRI_TRACK_COMM,
    TRI_TRACK_COPY,
    TRI_TRACK_LOADER,
    TRI_TRACK_COUNT
} tri_track;

/* One executed instruction of a profiled step. */
typedef struct tri_span {
    const char *name, *unit;   /* operation; unit or "" */
    const char *shape;         /* "[2048,384] <- ..." or "" */
    double begin, end;         /* seconds, from the first recorded step's start */
    double flops, bytes;
    int64_t step;
    int mb;                    /* microbatch; -1 */
    tri_track track;
    int transfer;              /* from 1: number in the step that a post and its wait share; 0: none */
    int posts;                 /* 1: the post of that transfer; 0: its wait */
    double sent;               /* bytes, of a post */
    int sender, receiver;      /* of a message, ranks; both 0: none */
    uint32_t id;               /* a message's: the same on both */
    const int64_t *live;       /* [n_classes] bytes in use of each class of memory; NULL: unknown */
} tri_span;

typedef struct tri_event {
    tri_event_kind kind;
    double time;                   /* seconds since 1970 */
    int64_t step, steps;           /* steps taken; steps in all */
    double epoch;                  /* epochs taken, fractional */
    /* TRAIN */
    double loss, learning_rate, grad_norm, step_seconds, loader_seconds;
    double comm_seconds,
        /* in transfers: moving data, waiting for others. Like loader_seconds, from their share of the time between the
         * last step's update and this one's, without validation and checkpoints; the mean over ranks */
        idle_seconds;
    double device_seconds;         /* that rank 0's GPU was busy; 0: no GPU */
    int64_t device_bytes;          /* used on that GPU by all ranks that share it */
    int64_t samples, tokens;       /* of the step */
    double flops;                  /* of the step, counted from the program */
    double mfu;                    /* nominal FLOPs over those that all devices could do in its time; 0: unknown */
    int64_t mem_bytes;             /* planned */
    double loss_scale;             /* of the next step; 0: the loss is not scaled */
    int experts;                   /* 1: the model has experts, and so the next two */
    double balance_loss;           /* the part of the loss that balances them */
    double dropped_tokens;         /* that no expert took, summed over the layers with experts */
    int64_t skipped_steps;         /* with a loss scale: steps so far whose gradients overflowed */
    /* EPOCH */
    int64_t epoch_index, epochs;   /* 1-based index */
    double train_loss;             /* mean over the epoch's samples */
    const tri_scores *valid;       /* NULL: none */
    const float *probs;            /* [valid->rows, valid->n_classes] of its rows; NULL: none */
    const int32_t *labels;         /* [valid->rows] */
    const tri_json *decision;      /* fitted to them (score/decision.h); NULL: none */
    const int64_t *rows;           /* [valid->rows] of the table, from 0; NULL: validation has all of it */
    double seconds;                /* EPOCH, END; REGROUP: since the world before failed or was left */
    int best;                      /* EPOCH: the best so far */
    const char *best_by;           /* EPOCH: the figure that decides; NULL: the loss */
    /* MESSAGE */
    tri_log_level level;
    const char *text;              /* MESSAGE; CHECKPOINT, UNCHANGED: its folder */
    /* START, END, UNCHANGED, PROFILE: facts as an object, borrowed: version, argv, config, plan, seeds / summary / the
     * existing summary / the profile */
    const tri_json *facts;
    int again;                     /* START: 1: the events of this very step come again */
    /* PROFILE */
    const tri_span *spans;
    int64_t n_spans;
    const char *const *classes;    /* [n_classes] of memory */
    int n_classes;
    /* time 0 of the spans on the clock that ranks share (train/record/profile.h); its error */
    double zero, uncertainty;
    int machine;                   /* of the job; ranks of one machine share a clock */
    int rank, world;
} tri_event;

/* A sink must not keep pointers of the event. A failing sink stops the run with its status. */
typedef struct tri_sink {
    tri_status (*emit)(void *context, const tri_event *event);
    void *context;
} tri_sink;

/* A log that sends messages to the sink; sink NULL: drops them. The sink must outlive it. */
tri_log tri__sink_log(const tri_sink *sink);
