/* settings.h - all settings of a run: the model's keys and the run's options, from the configuration file and the
 * command line. */
#ifndef TRI_SETTINGS_SETTINGS_H
#define TRI_SETTINGS_SETTINGS_H

#include "layout/mesh.h"
#include "model/config.h"

enum { TRI_OPTIONS_MAX = 256 }; /* rows of a command: the model's, the run's and the command's */

typedef struct tri_settings {
    tri_model_config model;
    /* optimisation: in the configuration file or on the command line */
    double lr, weight_decay, adam_beta1, adam_beta2, adam_eps, max_grad_norm;
    int64_t warmup_steps;
    int optimizer, nesterov;       /* optimizer: index of its row's choices */
    double momentum, outer_lr, outer_momentum, inner_lr_factor;
    int64_t full_steps, var_freeze_step, var_update_scaler, local_step_scaler, local_step_clipper, sync_every;
    char *layer_drop;              /* as given; tri__layer_drop_parse parses it */
    int compress_gradients, compress_weights, compress_scope, error_feedback; /* choices: indices of their rows' */
    tri_texts no_decay;            /* a parameter whose name contains one of these does not decay */
    int lr_schedule;               /* tri_lr_schedule: index of its row's choices */
    double warmup_ratio, lr_power, layer_lr_decay, head_lr;
    tri_texts freeze;              /* as given; tri__freeze_parse parses it */
    char *average_weights;         /* as given; tri__average_parse parses it */
    int loss;                      /* tri_loss_kind: index of its row's choices */
    double focal_gamma, label_smoothing;
    int best_by;                   /* tri_best_by: index of its row's choices */
    int64_t early_stopping;
    int64_t until_epoch;           /* 0: to the end */
    int calibration;               /* TRI_CALIBRATION_TEMPERATURE, ...: index of its row's choices */
    char *threshold;               /* as given; tri__threshold_parse parses it. NULL: the likeliest class */
    /* parts of one table */
    char *split, *group_by;        /* split: as given; tri__split_parse parses it */
    int stratify;
    int64_t split_seed, folds, fold, seeds; /* fold: from 1; 0: all */
    /* the run */
    char *config, *data_path, *output_dir, *models_dir, *resume, *device, *profile;
    int64_t batch_size, global_batch_size, epochs, max_steps, num_microbatches;
    int64_t save_every, save_steps, keep, seed, threads, max_tokens, log_every, num_workers;
    int64_t batch_asked;           /* batch_size as given, where tri__settings_adopt replaced it; else 0 */
    int async_save, no_report;
    tri_texts allow_change, log_to;
    int64_t max_restarts, min_ranks;
    int elastic, replicate_state;
    char *column_info, *cache_dir;
    int bad_rows;                  /* tri_bad_rows: index of its row's choices */
    char *separator;               /* as given; tri__separator_parse parses it */
    int decimal_mark;              /* TRI_DECIMAL_AUTO, ...: index of its row's choices */
    int date_order;                /* likewise; a tri_date_order */
    /* the mesh */
    int64_t nproc_per_node;        /* until tri__settings_ranks also TRI_NPROC_CORES, TRI_NPROC_GPUS */
    int64_t world_size, pp_size, tp_size, cp_size, dp_size, ep_size;
    int layout;                    /* TRI_LAYOUT_GIVEN, ...: index of its row's choices */
    char *mesh_order, *nnodes;
    int64_t nodes;                 /* machines: nnodes as a number; world_size = nodes * nproc_per_node */
    int64_t nodes_most;            /* of --nnodes MIN:MAX, until the launcher's number is known; else as nodes */
    /* how ranks start and communicate */
    int transport, bind_cores, rdzv_backend, standalone;   /* choices: indices of their rows' */
    double progress_timeout, io_timeout; /* seconds */
    int64_t node_rank, master_port;
    char *rdzv_endpoint, *rdzv_id, *rdzv_conf, *master_addr, *log_dir, *redirects, *tee, *local_ranks_filter;
    int precision, quantize, shard, schedule, recompute; /* indices of their rows' choices */
    tri_texts float_layers;        /* names of weights that quantize leaves alone */
    int reshard_after_forward, wrap, pipeline_shape, sequence_parallel, cp_mode; /* likewise */
    int64_t virtual_stages;
    tri_texts stages;
    char *stage_profile;
    int64_t shard_size, prefetch, wrap_min_params, check_replicas;
    double bucket_mb;
    int reduce_dtype;                            /* as precision */
    tri_texts offload;
    int tune_products;
    char *memory_limit;                          /* as given; tri__memory_limit_parse parses it */
    /* eval, predict, plan, inspect */
    char *checkpoint, *output, *tokenizer;
    int allow_unknown;             /* eval, predict, quantize: categories that are all unknown */
    int part;                      /* eval, predict: TRI_PART_ASKED_ALL, ...: index of its row's choices */
    int64_t print_program;         /* plan: a rank; TRI_PRINT_NONE, TRI_PRINT_ALL */
    int print_kind;                /* plan: a tri_program_kind */
    char *print_after;             /* plan: a pass's name */
    tri_texts program;             /* simulate: files */
    int timeline, csv, params;     /* plan: further views; simulate: timeline */
    char *svg;                     /* simulate, plan: the file for a picture of the timeline */
    char *attention_map;           /* plan: the file for a picture of attention's patterns */
    double price_per_hour;         /* simulate: of one rank; 0: unknown */
    char *hardware;                /* simulate, plan: a name or a file */
    char *calibrated; /* what `trident calibrate` wrote for this device, for where no hardware is given: not
                         an option; found by src/cli. NULL: nothing */
    char *hub_cache; /* Hugging Face's cache of models: not an option; found by src/cli. NULL: none */
    char *peaks;     /* the file of this machine's peaks (engine/cost/peaks.h): likewise */
    int tiny;                      /* encoders shrunk by tri__assets_open */
    /* tokenize, vocab */
    char *column;
    int null;
    int check, force, json, quiet, no_color;
    uint64_t given[TRI_OPTIONS_MAX / 64]; /* a bit for each row: given by the user, rather than left at the default */
    tri_option_set own;            /* rows that only the command has; rows NULL: none */
    const tri_option *const *others; /* own rows of all commands, NULL-terminated, while options are parsed; NULL:
                                        unknown */
    tri_texts notes;               /* how other programs' options were taken; owned, to be logged once */
    size_t guard;                  /* bytes after each memory class: not an option, for tests */
    int stub;                      /* 1: predicts on a device that computes nothing too: not an option, for benches */
} tri_settings;

typedef enum tri_lr_schedule { TRI_LR_LINEAR, TRI_LR_COSINE, TRI_LR_CONSTANT, TRI_LR_POLYNOMIAL } tri_lr_schedule;
typedef enum tri_loss_kind { TRI_LOSS_CROSS_ENTROPY, TRI_LOSS_FOCAL } tri_loss_kind;
typedef enum tri_best_by {
    TRI_BEST_LOSS,
    TRI_BEST_ACCURACY,
    TRI_BEST_F1,
    TRI_BEST_PR_AUC,
    TRI_BEST_ROC_AUC
} tri_best_by;
enum { TRI_CALIBRATION_TEMPERATURE, TRI_CALIBRATION_NONE };
enum { TRI_PART_ASKED_ALL, TRI_PART_ASKED_TRAIN, TRI_PART_ASKED_VALID, TRI_PART_ASKED_TEST };
/* pipeline_shape, and options whose default depends on the layout: indices of their rows' choices. */
enum { TRI_SHAPE_ASKED_AUTO, TRI_SHAPE_ASKED_CHAIN, TRI_SHAPE_ASKED_BRANCH };
enum { TRI_DECIMAL_AUTO, TRI_DECIMAL_POINT, TRI_DECIMAL_COMMA };
/* precision; from int8 on they stand for quantize beside the model's own computing type (eval, predict). */
enum { TRI_PRECISION_FP32, TRI_PRECISION_BF16, TRI_PRECISION_FP16, TRI_PRECISION_INT8, TRI_PRECISION_FP8 };
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

#endif
