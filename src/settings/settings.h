/* settings.h - all settings of a run: the model's keys and the run's options (options.def, whose rows make the fields),
 * from the configuration file and the command line. */
#pragma once

#include "base/log.h"
#include "model/model.h"

enum { TRI_OPTIONS_MAX = 256 }; /* rows of a command: the model's, the run's and the command's */

typedef struct tri_foreign tri_foreign;

typedef struct tri_settings {
    tri_model_config model;
#define TRI_OPTION(kind, field, ...) TRI_FIELD_##kind field;
#define TRI_NEEDS(...)
#include "settings/options.def"
    /* Not options. */
    int64_t batch_asked;           /* batch_size as given, where tri__settings_adopt replaced it; else 0 */
    int64_t nodes;                 /* machines: nnodes as a number; world_size = nodes * nproc_per_node */
    int64_t nodes_most;            /* of --nnodes MIN:MAX, until the launcher's number is known; else as nodes */
    /* What `trident calibrate` wrote for this device, for where no hardware is given: found by src/cli. NULL:
     * nothing. */
    char *calibrated;
    char *hub_cache;               /* Hugging Face's cache of models: found by src/cli. NULL: none */
    char *peaks;                   /* the file of this machine's peaks (engine/cost/peaks.h): likewise */
    const struct tri_tables *tables; /* in memory: what data_path memory:NAME means. NULL: none */
    int shows_attention;           /* 1: predictions keep what the fusion's last layer attends to */
    uint64_t given[TRI_OPTIONS_MAX / 64]; /* a bit for each row: given by the user, rather than left at the default */
    uint64_t typed[TRI_OPTIONS_MAX / 64]; /* likewise: given on the command line */
    tri_option_set own;            /* rows that only the command has; rows NULL: none */
    /* Own rows of all commands, NULL-terminated, while options are parsed; NULL: unknown. */
    const tri_option *const *others;
    uint64_t translated[TRI_OPTIONS_MAX / 64]; /* likewise: given by another program's file */
    int lists_refused;             /* 1: what such a file has and Trident has not is listed, and no failure */
    tri_texts refused;             /* that list, owned */
    int64_t micro_batch;           /* samples of a microbatch, where another program gave that and the global batch */
    int64_t unpaired;              /* microbatches that another program gave without their size; 0: none */
    const tri_foreign *backend;    /* the row of --backend, which holds on one device; NULL: not given */
    tri_texts notes;               /* how other programs' options were taken; owned, to be logged once */
    size_t guard;                  /* bytes after each memory class: for tests */
    int stub;                      /* 1: predicts on a device that computes nothing too: for benches */
} tri_settings;

typedef enum tri_lr_schedule {
#define TRI_RATE(id, ...) TRI_LR_##id,
#include "settings/learning_rates.def"
} tri_lr_schedule;
typedef enum tri_loss_kind {
#define TRI_LOSS(id, ...) TRI_LOSS_##id,
#include "settings/losses.def"
} tri_loss_kind;
typedef enum tri_best_by {
#define TRI_FIGURE(id, ...) TRI_BEST_##id,
#include "score/figures.def"
} tri_best_by;
/* Words of options, in the order of their rows' choices. */
enum { TRI_CALIBRATION_TEMPERATURE, TRI_CALIBRATION_NONE };
enum { TRI_STACK_OFF, TRI_STACK_AUTO, TRI_STACK_TREES, TRI_STACK_LINEAR };
enum { TRI_PART_ASKED_ALL, TRI_PART_ASKED_TRAIN, TRI_PART_ASKED_VALID, TRI_PART_ASKED_TEST };
/* pipeline_shape, and options whose default depends on the layout: indices of their rows' choices. */
enum { TRI_SHAPE_ASKED_AUTO, TRI_SHAPE_ASKED_CHAIN, TRI_SHAPE_ASKED_BRANCH };
enum { TRI_DECIMAL_AUTO, TRI_DECIMAL_POINT, TRI_DECIMAL_COMMA };
/* precision; from int8 on they stand for quantize beside the model's own computing type (eval, predict). */
#define TRI_PRECISIONS(X) \
    X(TRI_PRECISION_FP32, "fp32") X(TRI_PRECISION_BF16, "bf16") X(TRI_PRECISION_FP16, "fp16") \
    X(TRI_PRECISION_INT8, "int8") X(TRI_PRECISION_FP8, "fp8")
enum { TRI_PRECISIONS(TRI_ENUMERATOR) };
enum { TRI_QUANTIZE_NONE, TRI_QUANTIZE_INT8, TRI_QUANTIZE_FP8 };
enum { TRI_LAYOUT_GIVEN, TRI_LAYOUT_AUTO };
enum { TRI_SCOPE_WORLD, TRI_SCOPE_NODE }; /* compress_scope */
enum { TRI_CP_AUTO, TRI_CP_RING, TRI_CP_HEADS }; /* cp_mode */
enum { TRI_ASKED_AUTO, TRI_ASKED_YES, TRI_ASKED_NO };
enum { TRI_NPROC_CORES = 0, TRI_NPROC_GPUS = -1 };
enum { TRI_PRINT_NONE = -1, TRI_PRINT_ALL = -2 };
extern const tri_option tri__run_options[];

tri_status tri__settings_init(tri_settings *settings); /* TRI_RESOURCE: nothing to free */
/* Also frees the values of the command's own rows. */
void tri__settings_free(tri_settings *settings);
/* Whether the user gave the option of this field: of the settings, of their model, or of the struct of own rows. */
int tri__settings_given(const tri_settings *settings, const void *field);
/* Whether it was given on the command line, rather than by the configuration. */
int tri__settings_typed(const tri_settings *settings, const void *field);
/* From now on it counts as not given. */
void tri__settings_forget(tri_settings *settings, const void *field);
/* One "--name value" or "--name=value" list, without the command's name. Sets *config first if --config is among them,
 * so that the command line wins over the file. Positional words are collected in `words` (at most max_words). Unknown
 * names: TRI_USAGE with the nearest. `scope`: only rows listed for that command are accepted. */
tri_status tri__settings_parse(tri_settings *settings, const char *scope, int n, const char *const *args,
                               const char **words, int max_words, int *n_words);
/* Reads a configuration object: model keys and run keys; `_comments` is ignored; unknown keys TRI_USAGE with the
 * nearest. */
tri_status tri__settings_config(tri_settings *settings, const char *path);
/* The name listed for `scope` ("config": keys of the file) that is most similar; NULL when none is similar. */
const char *tri__settings_nearest(const tri_settings *settings, const char *name, const char *scope);
/* TRI_USAGE for an option that is given without the others that it needs (TRI_NEEDS of options.def). */
tri_status tri__settings_needs(const tri_settings *settings);
/* What other programs' files became: an object of our options. NULL when out of memory. */
tri_json *tri__settings_translated(const tri_settings *settings);
/* The loss that training minimises. */
tri_loss_form tri__settings_loss(const tri_settings *settings);
/* The words of --precision: of the computing type ("bf16"), and of the encoders' products ("int8" where they are
 * quantised). */
const char *tri__settings_computing(const tri_settings *settings);
const char *tri__settings_products(const tri_settings *settings);
/* The character of decimal_mark: '.', ','; 0: detect it. */
char tri__settings_decimal(const tri_settings *settings);
/* Recorded configuration: all keys that a configuration file may hold, in one object, so that tri__settings_config can
 * read it. NULL when out of memory. */
tri_json *tri__settings_json(const tri_settings *settings);

/* mesh.c: what follows from the number of ranks. Called at the end of parsing, and again when options change. TRI_USAGE
 * when nnodes, nproc_per_node and world_size disagree. Where only the global batch is given, batch_size becomes the
 * largest replica's share. */
tri_status tri__settings_ranks(tri_settings *settings);
/* A launcher started the ranks: `world` in all, `local` on each machine. TRI_USAGE with both numbers where the user
 * gave others. */
tri_status tri__settings_launched(tri_settings *settings, int world, int local);
tri_status tri__settings_mesh(const tri_settings *settings, tri_mesh *mesh);
int64_t tri__settings_replicas(const tri_settings *settings);
int64_t tri__settings_global_batch(const tri_settings *settings); /* samples of a step on all replicas */

/* ---- learning_rate.c: the learning rate of each step: warm-up, then a schedule, which is a row of
 * learning_rates.def ---- */

/* How the rate of a run goes. */
typedef struct tri_rates {
    tri_lr_schedule schedule;
    double lr, power;      /* power: of polynomial */
    int64_t warmup, steps; /* of warm-up, of the run */
} tri_rates;

/* Steps of warm-up in a run of `steps`: --warmup-steps, or else --warmup-ratio of them, rounded up. */
int64_t tri__warmup_steps(const tri_settings *s, int64_t steps);
/* The settings' rates in a run of `steps`. */
tri_rates tri__rates(const tri_settings *s, int64_t steps);
/* The learning rate of 0-based step s: linear warm-up, then the schedule. */
double tri__learning_rate(const tri_rates *rates, int64_t s);
int tri__rate_falls(tri_lr_schedule schedule); /* to 0, at the end of the run */
/* Arguments: steps of warm-up and of the run, the learning rate reached and the one given. */
#define TRI_WARMUP_WORDS \
    "--warmup-steps %lld in a run of %lld: the learning rate rises until the last step and gets to %.3g only, not to " \
    "%.3g"

/* ---- elastic.c: the mesh of a run that goes on with another number of ranks (--elastic) ---- */

/* Stages and replicas of a mesh. */
typedef struct tri_elastic_mesh {
    int stages, replicas;
    int ranks; /* that it uses */
} tri_elastic_mesh;

/* The meshes that at most `alive` ranks can form, best first: at most `max` of them; returns how many. Tensor, context
 * and expert groups stay as they are: their weights and tokens are split by them. A mesh that uses more ranks is
 * better, then one with as many stages as were asked for, then one with more, whose ranks need less memory. Stages that
 * were cut by hand (--stages) stay. */
int tri__elastic_meshes(const tri_settings *asked, int alive, tri_elastic_mesh *out, int max);
/* The settings with this mesh and the same global batch and microbatches; borrows what `asked` owns. */
tri_settings tri__elastic_settings(const tri_settings *asked, int stages, int replicas);

/* ---- changes.c: what may differ between a run and its continuation ---- */

/* Compares the configuration of a checkpoint with that of the run that is to continue it, both as recorded: logs every
 * difference, and refuses (TRI_USAGE, naming all) those that change the run's numbers by more than rounding, unless
 * --allow-change names them. `data`: 1 when the training data differs; batch: samples of a step, then and now; step:
 * steps taken; batches: of an epoch. path: the checkpoint, for messages. A finished run may get more epochs or
 * max_steps; the effect on its learning rate is logged. */
typedef struct tri_changes {
    const tri_json *was, *now;
    int data;
    int64_t batch_was, batch_now, step, batches;
    const char *path;
} tri_changes;
tri_status tri__changes_check(const tri_changes *changes, const tri_texts *allowed, const tri_log *log);
/* Checks the names of --allow-change where there is no checkpoint to compare with: TRI_USAGE when one is not an
 * option. */
tri_status tri__changes_check_names(const tri_texts *allowed);
