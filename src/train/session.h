/* session.h - internals of a training session, for the loop and the public interface. */
#pragma once

#include "engine/evaluate.h"
#include "train/events.h"
#include "data/dataset/data_files.h"
#include "train/loss_scale.h"
#include "train/record/run_forecast.h"
#include "train/state/saver.h"
#include "train/stop.h"

/* State kept across restarts, in addition to weights and optimizer state. */
typedef struct tri_position {
    int64_t step;                     /* taken */
    int64_t epoch, batch;             /* the next batch: 0-based */
    double loss_sum, weight_sum;      /* of this epoch so far: weighted losses, weights */
    double seconds;                   /* of the run's earlier processes, up to the checkpoint */
    double best;                      /* the best validation's figure, by settings.best_by; NaN: none yet */
    int64_t best_step;                /* -1 none */
    int64_t not_better;               /* validations in a row since then */
    int open_epoch;                   /* 1: the step before a validation is done, the validation is not */
    int64_t skipped;                  /* steps whose gradients overflowed (fp16): taken, but without an update */
    int64_t skipped_variance;         /* of them, those whose kind updates the variance (plan/step_kinds.h) */
    tri_loss_scale scale;             /* fp16 only */
    int64_t averaged;                 /* --average-weights last:N: ends of epochs that the average is of */
} tri_position;

struct tri_session {
    tri_settings own;                 /* of a session opened by options */
    tri_settings resolved;            /* as asked, with class weights by the training rows; else unused */
    const tri_settings *settings;     /* the caller's, own or resolved */
    tri_place place;
    int lead;                         /* rank 0, which writes files and reports */
    tri_sink sink;
    tri_log log;
    const tri_stop *stop;             /* ends opening early; may be NULL */
    int lock;                         /* of the run folder; -1 */
    tri_assets assets;
    tri_preprocess *preprocess;
    int positive;                     /* class that figures are for; -1: more than two classes */
    tri_dataset *train, *valid;       /* valid NULL: none */
    tri_json *parts;                  /* of tri_fitted, where they are parts of one table; else NULL */
    tri_sampler sampler;
    tri_loader *loader;
    tri_engine engine;
    tri_programs programs;            /* of all ranks; only on the lead */
    tri_run_prediction prediction;        /* only on the lead */
    tri_feed *feed;                   /* [n_mb] */
    int64_t batches, epochs, steps;   /* batches of an epoch; epochs, the last maybe partial; steps in all */
    tri_position at;
    int resumed;
    char from[TRI_PATH_MAX];          /* the checkpoint it continues from; "": none */
    int64_t sequence;                 /* of the last checkpoint in the run folder; only on the first rank */
    int warmup_said;
    double began;                     /* seconds since 1970: this run, or the one it continues */
    double opened;                    /* tri__clock() when this process had opened it */
    tri_json *best_figures;             /* of the best validation; NULL: none yet */
    /* fitted to the last validation (score/decision.h); NULL: none; only on the lead, unless the run was resumed */
    tri_json *decision;
    tri_json *trained;                  /* tri__trained_json, for checkpoints; only on the lead */
    /* likewise tri__reference_fit; tri__answers_fit of the last validation, NULL: none yet */
    tri_json *reference, *answers;
    tri_saver *saver;
    void *kept;                       /* this rank's area of replicated state (checkpoint/memory.h); NULL: none */
    int64_t keeping;                  /* the step of which a copy is in flight to it; 0: none */
    int to_post;                      /* 1: that copy is not posted yet */
    struct tri_held_peers *held_peers; /* its copy on another machine (held.h); NULL: there is one machine */
    /* 1: it continues from replicated state, and the last step's end (its event, validation, checkpoint) is to be done
     * again */
    int pending;
    /* the current batch */
    const tri_batch *batch;
    double inv;                       /* 1 / sum of its label weights */
    double copy_inv;                  /* the same of the samples of this rank's copy of the model; 0: it has none */
    double balance_inv[2];            /* 1 / sequences of each text in it */
    double balance_loss, dropped;     /* of experts: part of the loss; tokens without a place, summed over layers */
    float hyper[TRI_HYPERS];
    float average;                    /* the field average */
    tri_step last;
    double model_flops;               /* nominal, of the global batch (engine/cost/mfu.h); only on the lead */
    double waited;                    /* seconds that this rank waited for the batch */
    /* shares of the time since the last step's control, without validation and checkpoints, mean over ranks: waiting
     * for the batch, and in transfers moving data and waiting for others */
    double loading, comm, idle;
    int control; /* the control's instruction in the training program; -1: one rank */
    double told[TRI_TOLD_COUNT];      /* this rank's last control record */
    double told_at, span;             /* its time, on tri__clock; seconds since the previous one */
    int stopping;                     /* 1: by the last control, some rank was asked to stop */
    double longest;                   /* seconds of the longest step, with validation and checkpoint */
    int64_t used;                     /* bytes used on this rank's device, when last queried; 0: it is the host */
    double worked;                    /* seconds of the step that this rank's device was busy; 0: it is the host */
    tri_time *times;                  /* [n_instrs] when the step is traced; else NULL */
};

/* Opens everything up to the first batch: data, model, plan, memory, weights or a checkpoint. settings, world and sink
 * outlive it. Every rank of the world opens its own; world NULL: one rank. TRI_STOPPED when `stop` (may be NULL) ended
 * it before the first batch. */
tri_status tri__session_open(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop,
                             tri_session **out);
/* The session takes over settings that it was opened with: `given` itself is not used again. */
void tri__session_own(tri_session *session, const tri_settings *given);
/* tri_session_join, with guard bytes after each memory class, and maybe tables in memory. */
tri_status tri__session_join(tri_world *world, int n_options, const char *const *options,
                             const struct tri_tables *tables, size_t guard, tri_session **out);
/* decide.c: fits temperature and threshold to the probabilities of the validation of the current step, [rows, classes],
 * for the checkpoints that follow; on the lead. What could not be honoured is said. */
tri_status tri__session_decide(tri_session *session, const float *probs);
/* Where there are no validation rows: says that no temperature is fitted; TRI_USAGE if a threshold is to be chosen on
 * them. */
tri_status tri__session_check_decision(const tri_session *session);
/* probs: where the rows' probabilities go, [rows, classes], which the caller frees; NULL: not wanted. */
tri_status tri__session_scores(tri_session *session, tri_scores *scores, float **probs);
double tri__session_rate(const tri_session *session);    /* the learning rate of the next step */
/* Whether so many validations in a row were not better that the run ends before its last step (--early-stopping). It
 * follows from the position, so a run that is continued after that has ended. */
int tri__session_ends_early(const tri_session *session);
/* Whether the epochs that were asked for now (--until-epoch) are trained, and others are left. */
int tri__session_ends_here(const tri_session *session);
int tri__session_is_over(const tri_session *session);    /* either, or all steps are taken */
double tri__session_seconds(const tri_session *session); /* of the run so far, in all processes */
tri_status tri__session_emit(const tri_session *session, tri_event *event); /* fills time, step, steps, epoch */

/* control.c: the step's control. `tell_from_now` begins to count; `tell` fills in this rank's record before the update;
 * `hear` takes the sums over ranks after it. */
void tri__session_tell_from_now(tri_session *session);
void tri__session_tell(tri_session *session);
void tri__session_hear(tri_session *session);
/* Time between the two calls, such as a validation, is not counted in the shares of steps. */
typedef struct tri_aside {
    double at, wait, idle;
} tri_aside;
tri_aside tri__session_step_aside(const tri_session *session);
void tri__session_step_back(tri_session *session, const tri_aside *aside);
/* Whether the run should end before its next step, the same on all ranks. A single rank is asked now; several use the
 * last control. */
int tri__session_stopping(const tri_session *session);
/* The same without an update: by an exchange now. Every rank calls it. */
tri_status tri__session_ask(tri_session *session, int *stopping);

/* Once it should: whether it ends, rather than going on in a new world with ranks that wait to join. Every rank calls
 * it. */
tri_status tri__session_ends(tri_session *session, int *ends);

/* average.c: how far averaged weights go towards those of the step that is taken next; 0 without averages, or for an
 * exponential average of this decay in its n-th update. `taken`: counts the step once it is taken, before the position
 * moves on. `fits`: whether the run has as many epochs. */
double tri__session_average(const tri_session *session);
double tri__ema_step(double decay, int64_t n);
void tri__session_average_taken(tri_session *session);
tri_status tri__session_average_fits(const tri_session *session);

/* together.c: the beginning of a run whose ranks another launcher started, maybe on several machines.
All ranks tell each other how their first checks ended (`mine`, tri_error()): if one failed, its failure is that of
 * all, naming rank and machine, or no rank if all failed alike. On several machines they then prove that the run folder
 * is one that all of them see: TRI_IO naming two machines otherwise. Of ranks with a supervisor, and in a world that
 * follows others, `mine` is returned. world NULL: one process. */
tri_status tri__begin_together(tri_world *world, const char *folder, tri_status mine);

/* resume.c: finds the checkpoint to continue from and reads position, weights, optimizer state. */
tri_status tri__session_resume(tri_session *session);
/* The run's settings, with encoders and positive label as they were resolved: so that the checkpoint alone describes
 * the model. NULL when out of memory. */
tri_json *tri__session_recorded(const tri_session *session);
/* save.c: every rank calls these. open_saver also removes what a killed run left in the run folder. */
tri_status tri__session_open_saver(tri_session *session);
/* tri__saver_begin and tri__saver_advance for the session's current state. */
tri_status tri__session_save_begin(tri_session *session);
tri_status tri__session_save_advance(tri_session *session, int wait, tri_saved *saved);
/* Commits a checkpoint; none may be in flight. */
tri_status tri__session_save(tri_session *session, char folder[static TRI_PATH_MAX]);
/* Program, architecture and compiler: two builds with the same text round alike. */
const char *tri__build_text(void);

/* replicate.c: with --replicate-state the state of each step is in shared memory. `open`: once memory is bound; `keep`:
 * after an update, begins to copy; `keep_end`: its copy is complete: before the next control, before anything that
 * relies on the step, and at last; `done`: once the step's end is done too. */
tri_status tri__session_keep_open(tri_session *session);
tri_status tri__session_keep(tri_session *session);
tri_status tri__session_keep_end(tri_session *session);
tri_status tri__session_keep_done(tri_session *session);
int tri__session_first(tri_session *session); /* the instruction with which the next run begins: copies that are due */
/* Once the state of a run that goes on is in the engine: lets go of the memory of the world before. Where no supervisor
 * holds it as well, not before all ranks have kept that state in this one. */
tri_status tri__session_keep_first(tri_session *session);
/* The state that the ranks of an earlier world kept, as a checkpoint; *out NULL: there is none. */
tri_status tri__session_kept(const tri_session *session, tri_checkpoint **out);
/* After its position was taken: whether the end of its last step is pending, and that step's figures. */
void tri__session_take_kept(tri_session *session, const tri_json *state);
/* What a checkpoint records of the run besides tensors, but for its rows; NULL when out of memory. */
tri_json *tri__session_state(const tri_session *session);

/* replicas.c: ranks that hold the same weights compare them; TRI_DISAGREE naming the rank that differs. Every rank
 * calls it. */
tri_status tri__session_compare_replicas(tri_session *session);
