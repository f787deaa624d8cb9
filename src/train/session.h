/* session.h - the inside of a training session, for the loop and the public interface. */
#ifndef TRI_TRAIN_SESSION_H
#define TRI_TRAIN_SESSION_H

#include "engine/evaluate.h"
#include "train/events.h"
#include "engine/files.h"
#include "train/loss_scale.h"
#include "train/saver.h"
#include "train/stop.h"

/* What is remembered across restarts, beside weights and optimizer state. */
typedef struct tri_position {
    int64_t step;                     /* taken */
    int64_t epoch, batch;             /* the next batch: 0-based */
    double loss_sum, weight_sum;      /* of this epoch so far: weighted losses, weights */
    double seconds;                   /* that earlier processes of the run took, up to the checkpoint */
    double best_loss;                 /* of validation; infinite: none yet */
    int64_t best_step;                /* -1 none */
    int open_epoch;                   /* 1: the last step before a validation is taken, the validation is not */
    int64_t skipped;                  /* steps whose gradients overflowed (fp16): taken, but without an update */
    tri_loss_scale scale;             /* fp16 only */
} tri_position;

struct tri_session {
    tri_settings own;                 /* of a session opened by options */
    const tri_settings *settings;
    tri_place place;
    int lead;                         /* rank 0: the one that writes files and tells the world */
    tri_sink sink;
    tri_log log;
    const tri_stop *stop;             /* ends opening early; NULL: nobody asks */
    int lock;                         /* of the run folder; -1 */
    tri_assets assets;
    tri_preprocess *preprocess;
    int positive;                     /* class that figures belong to; -1: of more than two classes none */
    tri_dataset *train, *valid;       /* valid NULL: none */
    tri_sampler sampler;
    tri_loader *loader;
    tri_engine engine;
    tri_programs programs;            /* of all ranks; the lead's only */
    tri_feed *feed;                   /* [n_mb] */
    int64_t batches, epochs, steps;   /* batches of an epoch; epochs that steps reach into; steps in all */
    tri_position at;
    int resumed;
    char from[TRI_PATH_MAX];          /* the checkpoint that it continues from; "": none */
    int64_t sequence;                 /* of the last checkpoint in the run folder; on the first rank */
    int warmup_said;
    double began;                     /* seconds since 1970: this run, or the one that it continues */
    double opened;                    /* tri__clock() when this process had opened it */
    tri_json *best_figures;             /* of the best validation; NULL: none yet */
    tri_json *trained;                  /* tri__trained_json, for checkpoints; the lead's only */
    tri_saver *saver;
    /* the current batch */
    const tri_batch *batch;
    double inv;                       /* 1 / sum of its label weights */
    float hyper[4];
    tri_step last;
    double waited; /* seconds for the loader: of this rank until the step ends, then the ranks' mean */
    double comm, idle;                /* shares of the time since the last step's control that ranks were in transfers,
                                         their mean: moving data, waiting for others */
    int control; /* instruction of the training program that tells the others; -1: there are none */
    double told[TRI_TOLD_COUNT];      /* what this rank told the others last */
    double told_at, span;             /* when that was, on tri__clock; seconds since the time before */
    int stopping;                     /* some rank had been asked to stop when it last told the others */
    double longest;                   /* seconds of a step with all that came with it */
    int64_t used;                     /* bytes in use of this rank's device, as last looked at; 0: it is the host */
    double worked;                    /* seconds of the step that this rank's device was at work; 0: it is the host */
    tri_time *times;                  /* [n_instrs] when the step is traced; NULL */
};

/* Opens everything up to the first batch: data, model, plan, memory, weights or a checkpoint. settings, world and sink
 * outlive it. Every rank of the world opens its own; world NULL: one rank. TRI_STOPPED when `stop` (NULL: nobody asks)
 * ended it before there was a first batch. */
tri_status tri__session_open(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop,
                             tri_session **out);
/* tri_session_join, with guard bytes after each class of memory. */
tri_status tri__session_join(tri_world *world, int n_options, const char *const *options, size_t guard,
                             tri_session **out);
tri_status tri__session_scores(tri_session *session, tri_scores *scores);
double tri__session_seconds(const tri_session *session); /* that the run took so far, in all processes */
tri_status tri__session_emit(const tri_session *session, tri_event *event); /* fills time, step, steps, epoch */

/* control.c: what ranks tell each other. `tell_from_now` begins to count; `tell` notes what this rank has to say,
 * before the update; `hear` takes the ranks' sums, after it. */
void tri__session_tell_from_now(tri_session *session);
void tri__session_tell(tri_session *session);
void tri__session_hear(tri_session *session);
/* Whether the run should end before its next step, the same on all ranks. A rank that is alone is asked now; several go
 * by the last control. */
int tri__session_stopping(const tri_session *session);
/* Where no update tells: the same answer after an exchange now. Every rank calls it. */
tri_status tri__session_ask(tri_session *session, int *stopping);

/* resume.c: finds the checkpoint to continue from and reads position, weights, optimizer state. */
tri_status tri__session_resume(tri_session *session);
/* The run's settings, with encoders and positive label as they were resolved: the checkpoint alone says what the model
 * is. NULL when out of memory. */
tri_json *tri__session_recorded(const tri_session *session);
/* save.c: every rank calls these. open_saver also clears the run folder of what a killed run left. */
tri_status tri__session_open_saver(tri_session *session);
/* As tri__saver_begin and tri__saver_advance, of where the session stands. */
tri_status tri__session_save_begin(tri_session *session);
tri_status tri__session_save_advance(tri_session *session, int wait, tri_saved *saved);
/* Commits a checkpoint; nothing may be under way. */
tri_status tri__session_save(tri_session *session, char folder[static TRI_PATH_MAX]);
/* Program, architecture, BLAS and compiler: two builds of the same text round alike. */
const char *tri__build_text(void);

/* replicas.c: ranks that hold the same weights compare them; TRI_DISAGREE naming the rank that differs. Every rank
 * calls it. */
tri_status tri__session_compare_replicas(tri_session *session);

#endif
