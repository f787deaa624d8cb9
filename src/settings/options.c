/* options.c - the run's options, one row each: type, default, help, commands, and the effect of a change, which makes a
 * row a key of the configuration file. Adding one: a row here and a field of tri_settings. Rows that only one command
 * other than train has, and that nothing below src/cli reads, are in that command's file. */
#include "settings/settings.h"

#include "device/device.h"
#include "settings/forms.h"

#include <math.h>
#include <stddef.h>

#define ROW(kind_, field_, effect_, ...) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(tri_settings, field_), \
     .effect = TRI_EFFECT_##effect_, __VA_ARGS__}
#define FROM(least) .min = (least), .max = INFINITY
#define RANKS .min = 1, .max = 1 << 20
#define ALL \
    "train,eval,predict,serve,plan,choose,simulate,calibrate,report,trace,inspect,demo,export,quantize,digest," \
    "checkpoint,supervise,doctor,tokenize,vocab,mesh,bench,check,watch,explain"

static tri_status check_order(const char *text) {
    tri_mesh mesh = {.pp = 1, .tp = 1, .dp = 1};
    return tri__mesh_set_order(&mesh, text, 1);
}

static tri_status check_profile(const char *text) {
    tri_profile_steps steps;
    return tri__profile_parse(text, &steps);
}

static tri_status check_layer_drop(const char *text) {
    double theta, gamma;
    return tri__layer_drop_parse(text, &theta, &gamma);
}

static tri_status check_average(const char *text) {
    tri_average_form form;
    return tri__average_parse(text, &form);
}

static tri_status check_threshold(const char *text) {
    tri_threshold threshold;
    return tri__threshold_parse(text, &threshold);
}

static tri_status check_split(const char *text) {
    double share[3];
    return tri__split_parse(text, share);
}

static tri_status check_limit(const char *text) {
    int64_t bytes;
    return tri__memory_limit_parse(text, &bytes);
}

const tri_option tri__run_options[] = {
    ROW(TEXT, config, UNRECORDED, .commands = "train,plan,choose,simulate,inspect",
        .help = "configuration file: the model's keys and the run's, in JSON"),
    ROW(TEXT, data_path, NOTHING, .commands = "train,eval,predict,plan,choose,simulate,quantize,bench,explain",
        .help = "table (.csv, .tsv, .jsonl, also .gz or .zst; .arrow, .parquet), or a folder of train, valid and test"),
    ROW(TEXT, output_dir, NOTHING, .value = "./outputs", .commands = "train,demo,export,supervise",
        .help = "run folder: metrics, checkpoints, summary; of an export: the folder to create"),
    ROW(TEXT, models_dir, NOTHING, .commands = "train,plan,choose,simulate,inspect,tokenize,doctor",
        .help = "folder that holds the folders of tokenizers and encoders; then ./models and Hugging Face's cache are "
                "searched"),
    ROW(TEXT, column_info, NOTHING, .commands = "train,plan,choose,simulate",
        .help = "column_info.json of the Multimodal-Toolkit, which describes columns; default: the data folder's, if "
                "no text is named"),
    ROW(CHOICE, bad_rows, RUN, .value = "fail", .choices = "fail|skip",
        .commands = "train,eval,predict,plan,choose,simulate,inspect,quantize,explain",
        .help = "a row that cannot be read: stop there, or leave it out and count it"),
    ROW(TEXT, separator, NOTHING, .value = "auto",
        .commands = "train,eval,predict,plan,choose,simulate,inspect,tokenize,vocab,quantize,explain",
        .help = "separator of CSV fields: comma, semicolon, tab, pipe, or the character; auto: recognised"),
    ROW(CHOICE, decimal_mark, NOTHING, .value = "auto", .choices = "auto|point|comma|.=point|,=comma",
        .commands = "train,eval,predict,plan,choose,simulate,inspect,quantize,explain",
        .help =
            "decimal mark of numbers; auto: recognised where commas do not separate; eval, predict: as in training"),
    ROW(CHOICE, date_order, NOTHING, .value = "auto", .choices = "auto|ymd|dmy|mdy",
        .commands = "train,eval,predict,plan,choose,simulate,inspect,quantize,explain",
        .help = "order of year, month and day in dates; auto: recognised; eval, predict: as in training"),
    ROW(TEXT, cache_dir, NOTHING, .commands = "train,eval,predict,plan,choose,simulate,quantize",
        .help = "folder of token stores; none: no store; default: cache in the run folder of train"),
    ROW(TEXT, checkpoint, UNRECORDED, .commands = "eval,predict,export,digest,quantize,bench,explain",
        .help = "a checkpoint, an export, or a run folder"),
    ROW(TEXT, tokenizer, UNRECORDED, .commands = "inspect,tokenize",
        .help = "folder of a tokenizer, or its name in --models-dir, ./models or Hugging Face's cache"),
    ROW(TEXT, output, UNRECORDED, .commands = "predict,vocab,quantize,calibrate,report,trace,explain",
        .help = "file to write: .csv, .tsv, .jsonl (vocab, quantize: folder; calibrate: JSON; explain: .html, .jsonl; "
                "report: .html, trace: .json, default in the run folder); -o for short; default: stdout"),
    ROW(TEXT, column, UNRECORDED, .commands = "tokenize,vocab",
        .help = "files are tables (CSV, TSV, JSON lines), texts are in this column; default: texts are lines"),
    ROW(BOOL, null, UNRECORDED, .value = "false", .commands = "tokenize,vocab",
        .help = "texts end in a 0 byte instead of a newline"),
    ROW(INT, batch_size, BATCH, .value = "32", .min = 1, .max = 1 << 20,
        .commands = "train,eval,predict,plan,choose,simulate,quantize", .heading = "optimisation",
        .help = "samples of a step on each replica"),
    ROW(INT, global_batch_size, BATCH, .value = "0", .min = 0, .max = 1 << 24, .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "samples of a step in all; 0: batch_size on each replica"),
    ROW(INT, num_microbatches, ROUNDING, .value = "0", .min = 0, .max = 1 << 16,
        .commands = "train,eval,predict,serve,plan,choose,simulate,bench", .heading = "optimisation",
        .help = "microbatches that a replica's batch is split into; 0: 2 x pp_size in a pipeline, else 1"),
    ROW(INT, epochs, LENGTH, .value = "10", .min = 1, .max = 1e9, .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "passes over the data"),
    ROW(INT, max_steps, LENGTH, .value = "0", .min = 0, .max = 1e15, .commands = "train,plan,choose,simulate,bench",
        .heading = "optimisation", .help = "stop after this many steps; 0: no limit"),
    ROW(TEXT, split, RUN, .commands = "train,plan,choose,simulate", .check = check_split,
        .help = "divides one table: shares of its rows for training, validation and test, e.g. 0.8,0.1,0.1"),
    ROW(BOOL, stratify, RUN, .value = "false", .commands = "train,plan,choose,simulate",
        .help = "split, folds: every part has the classes in the table's proportions"),
    ROW(TEXT, group_by, RUN, .commands = "train,plan,choose,simulate",
        .help = "split, folds: rows with the same value in this column stay together"),
    ROW(INT, split_seed, RUN, .value = "42", .min = 0, .max = 4294967295.0, .commands = "train,plan,choose,simulate",
        .help = "split, folds: seed of the shuffle that divides the rows; --seed does not change it"),
    ROW(INT, folds, RUN, .value = "0", .min = 0, .max = 1000, .commands = "train,plan,choose,simulate",
        .help = "k-fold cross-validation: a run for each fold, then mean and spread of their figures; 0: none"),
    ROW(INT, fold, RUN, .value = "0", .min = 0, .max = 1000, .commands = "train,plan,choose,simulate",
        .help = "folds: train only this one, from 1; 0: all, one after the other"),
    ROW(INT, seeds, NOTHING, .value = "1", .min = 1, .max = 1000, .commands = "train",
        .help = "an ensemble: this many runs with different seeds, which eval, predict and serve average"),
    ROW(CHOICE, part, UNRECORDED, .value = "all", .choices = "all|train|valid|test",
        .commands = "eval,predict,explain",
        .help = "if the model's run split this table (--split): only the rows of this part"),
    ROW(BOOL, allow_unknown, UNRECORDED, .value = "false", .commands = "eval,predict,quantize",
        .help = "go on with a table of which training had no value of some column of categories"),
    ROW(INT, max_tokens, NOTHING, .value = "0", FROM(0), .commands = "train,eval,predict,plan,choose,simulate,quantize",
        .help = "most tokens of one text branch in a microbatch; 0: as the data needs"),

    ROW(REAL, lr, RUN, .value = "2e-5", FROM(0), .alias = "learning_rate", .commands = "train",
        .heading = "optimisation", .help = "learning rate after warm-up; lr_schedule says how it falls"),
    ROW(CHOICE, lr_schedule, RUN, .value = "linear", .choices = "linear|cosine|constant|polynomial",
        .commands = "train", .heading = "optimisation",
        .help = "how the learning rate falls after warm-up: to 0 linearly, as half a cosine, or to the power of "
                "lr_power; or not at all"),
    ROW(REAL, lr_power, RUN, .value = "1", FROM(0), .commands = "train", .heading = "optimisation",
        .help = "lr_schedule polynomial: its power"),
    ROW(REAL, layer_lr_decay, RUN, .value = "1", .min = 0.01, .max = 1, .commands = "train", .heading = "optimisation",
        .help = "each encoder layer has the learning rate of the layer above times this; embeddings are the lowest"),
    ROW(REAL, head_lr, RUN, .value = "0", FROM(0), .commands = "train", .heading = "optimisation",
        .help = "learning rate of parameters that pretrained weights lack: projections, table, fusion; 0: lr"),
    ROW(TEXTS, freeze, RUN, .commands = "train,plan,choose,simulate", .heading = "optimisation",
        .help = "parameters of the encoders that are not trained: embeddings, layers=N (the first N of each), or "
                "layers=all"),
    ROW(TEXT, average_weights, RUN, .value = "none", .check = check_average, .commands = "train,plan,choose,simulate",
        .heading = "optimisation",
        .help = "validate and save a mean of the weights: ema or ema:0.999 (exponential), last:N (of the last N "
                "epochs)"),
    ROW(CHOICE, loss, RUN, .value = "cross_entropy", .choices = "cross_entropy|focal",
        .commands = "train,plan,choose,simulate", .heading = "optimisation",
        .help = "the loss that training minimises"),
    ROW(REAL, focal_gamma, RUN, .value = "2", FROM(0), .commands = "train,plan,choose,simulate",
        .heading = "optimisation",
        .help = "loss focal: a sample counts (1 - the probability of its label) to this power; 0: cross-entropy"),
    ROW(REAL, label_smoothing, RUN, .value = "0", .min = 0, .max = 0.999, .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "share of a label's weight that is spread evenly over all classes"),
    ROW(CHOICE, best_by, RUN, .value = "loss", .choices = "loss|accuracy|f1|pr_auc|roc_auc", .commands = "train",
        .help = "validation figure that decides which checkpoint is the best"),
    ROW(INT, early_stopping, NOTHING, .value = "0", .min = 0, .max = 1e9, .commands = "train",
        .help = "end the run after this many validations in a row without a better --best-by; 0: never"),
    ROW(INT, until_epoch, UNRECORDED, .value = "0", .min = 0, .max = 1e9, .commands = "train",
        .help = "end after this epoch with a checkpoint; learning rates stay those of all epochs, and the same command "
                "with a higher number goes on; 0: to the end"),
    ROW(CHOICE, calibration, NOTHING, .value = "temperature", .choices = "temperature|none",
        .commands = "train,eval,predict,serve,explain",
        .help = "temperature: probabilities are scaled by a temperature that is fitted to validation and kept with the "
                "model; none: they are the model's own"),
    ROW(TEXT, threshold, NOTHING, .commands = "train,eval,predict,serve,explain", .check = check_threshold,
        .help = "two classes: probability from which the positive one is predicted; train chooses it on validation for "
                "f1, precision=P, recall=R or cost=A:B (of a false positive, of a false negative); eval, predict, "
                "serve and explain take a number or none instead of the model's"),
    ROW(INT, warmup_steps, RUN, .value = "0", FROM(0), .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "steps of linear warm-up"),
    ROW(REAL, warmup_ratio, RUN, .value = "0", .min = 0, .max = 1, .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "warm-up as a share of the run's steps, if warmup_steps is 0"),
    ROW(REAL, weight_decay, RUN, .value = "0.01", FROM(0), .commands = "train", .heading = "optimisation",
        .help = "weight decay, decoupled; adam, sgd: added to the gradient"),
    ROW(TEXTS, no_decay, RUN, .value = "bias,LayerNorm.weight,norm.weight", .commands = "train",
        .heading = "optimisation", .help = "parameters whose name contains one of these do not decay"),
    ROW(REAL, adam_beta1, RUN, .value = "0.9", .min = 0, .max = 0.9999999, .commands = "train",
        .heading = "optimisation", .help = "decay of the mean gradient; all optimizers but sgd"),
    ROW(REAL, adam_beta2, RUN, .value = "0.999", .min = 0, .max = 0.9999999, .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "decay of the mean squared gradient; all optimizers but sgd"),
    ROW(REAL, adam_eps, RUN, .value = "1e-8", .min = 1e-30, .max = 1, .commands = "train", .heading = "optimisation",
        .help = "added to the root of the mean square; all optimizers but sgd"),
    ROW(CHOICE, optimizer, RUN, .value = "adamw",
        .choices = "adamw|adam|lamb|sgd|onebit-adam|onebit-lamb|zero-one-adam",
        .commands = "train,plan,choose,simulate", .heading = "optimisation",
        .help = "the optimizer; onebit, zero-one: momentum travels as signs"),
    ROW(REAL, momentum, RUN, .value = "0.9", .min = 0, .max = 0.9999999, .commands = "train", .heading = "optimisation",
        .help = "sgd: decay of the momentum; 0: none"),
    ROW(BOOL, nesterov, RUN, .value = "false", .commands = "train", .heading = "optimisation",
        .help = "sgd: Nesterov's momentum"),
    ROW(INT, full_steps, RUN, .value = "0", FROM(0), .alias = "freeze_step", .commands = "train,plan,choose,simulate",
        .heading = "optimisation",
        .help = "onebit-adam, onebit-lamb: steps before momentum travels as signs; 0: a fifth of the run, at least "
                "warm-up and 1 / (1 - adam_beta2)"),
    ROW(INT, var_freeze_step, RUN, .value = "0", FROM(0), .commands = "train,plan,choose,simulate",
        .heading = "optimisation",
        .help = "zero-one-adam: the step after which the variance stays as it is; 0: half of the run, at least "
                "warm-up"),
    ROW(INT, var_update_scaler, RUN, .value = "16", .min = 1, .max = 1e9, .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "zero-one-adam: updates of the variance after which their interval doubles"),
    ROW(INT, local_step_scaler, RUN, .value = "32678", .min = 1, .max = 1e15, .commands = "train,plan,choose,simulate",
        .heading = "optimisation",
        .help = "zero-one-adam: steps after which, with the variance frozen, the interval between exchanges doubles"),
    ROW(INT, local_step_clipper, RUN, .value = "16", .min = 1, .max = 4096, .commands = "train,plan,choose,simulate",
        .heading = "optimisation", .help = "zero-one-adam: the longest interval between exchanges, in steps"),
    ROW(INT, sync_every, RUN, .value = "1", .min = 1, .max = 1e9, .commands = "train,plan,choose,simulate",
        .heading = "optimisation",
        .help = "copies of the model step alone and meet every so many steps (DiLoCo); 1: every step is common"),
    ROW(REAL, outer_lr, RUN, .value = "0.7", .min = 1e-30, .max = INFINITY, .commands = "train",
        .heading = "optimisation", .help = "sync_every: rate of the step along the mean change"),
    ROW(REAL, outer_momentum, RUN, .value = "0.5", .min = 0, .max = 0.9999999, .commands = "train",
        .heading = "optimisation", .help = "sync_every: Nesterov's momentum of that step"),
    ROW(REAL, inner_lr_factor, RUN, .value = "0", FROM(0), .commands = "train", .heading = "optimisation",
        .help = "sync_every: the learning rate of copies' own steps, in multiples of lr; 0: the square root of the "
                "number of copies (sgd: 1)"),
    ROW(TEXT, layer_drop, RUN, .value = "none", .check = check_layer_drop,
        .commands = "train,plan,choose,simulate,bench", .heading = "optimisation",
        .help = "theta=0.5,gamma=0.001: steps leave layers out, later ones more often (progressive layer dropping); "
                "gamma left out: 100 / steps"),
    ROW(CHOICE, compress_gradients, RUN, .value = "none", .choices = "none|bf16|int8|int4|fp8",
        .commands = "train,plan,choose,simulate", .help = "code in which sums of gradients travel between replicas"),
    ROW(CHOICE, compress_weights, RUN, .value = "none", .choices = "none|bf16|int8",
        .commands = "train,plan,choose,simulate", .help = "zero3, hybrid: code in which weights are gathered"),
    ROW(BOOL, error_feedback, RUN, .value = "false", .commands = "train,plan,choose,simulate",
        .help = "add what coding loses of gradients to the next step's: 4 bytes a parameter on each replica"),
    ROW(CHOICE, compress_scope, RUN, .value = "world", .choices = "world|node",
        .commands = "train,plan,choose,simulate",
        .help = "node: replicas of a machine exchange in full, only machines among each other in the code"),
    ROW(REAL, max_grad_norm, RUN, .value = "1.0", FROM(0), .commands = "train", .heading = "optimisation",
        .help = "gradients are scaled down to this global norm (sync_every: to sqrt(copies) times as much, each copy's "
                "own); 0: never"),
    ROW(CHOICE, precision, RUN, .value = "fp32",
        .commands = "train,eval,predict,serve,plan,simulate,bench,quantize,explain",
        .choices = "fp32|bf16|fp16|int8|fp8|32=fp32|32-true=fp32|float32=fp32|bf16-mixed=bf16|bfloat16=bf16|16=fp16"
                   "|16-mixed=fp16|float16=fp16",
        .help = "arithmetic; train: fp8 is bf16 with dense layers of the encoders in 8 bits; eval, predict: int8, fp8 "
                "mean --quantize of it, all else as the model was trained"),
    ROW(CHOICE, quantize, RUN, .value = "none", .commands = "train,eval,predict,serve,plan,simulate,bench,explain",
        .choices = "none|int8|fp8",
        .help = "type of the encoders' matrix products; train: int8, with gradients as if it did not round"),
    ROW(TEXTS, float_layers, RUN, .commands = "train,plan,simulate,bench",
        .help = "weights whose products --quantize, or --precision fp8, leaves as they are"),
    ROW(CHOICE, reduce_dtype, RUN, .value = "fp32", .commands = "train,plan,choose,simulate",
        .choices = "fp32|bf16|fp16|float32=fp32|bfloat16=bf16|float16=fp16",
        .help = "type in which gradients are kept and summed over replicas"),
    ROW(INT, seed, RUN, .value = "42", .min = 0, .max = 4294967295.0, .commands = "train,demo",
        .help = "seed of initial weights, sample order and dropout"),

    ROW(TEXT, resume, NOTHING, .value = "auto", .commands = "train",
        .help = "auto: from the run folder's last checkpoint, if any; never; or the folder of a checkpoint, or of an "
                "export, whose weights start a new run"),
    ROW(INT, save_every, NOTHING, .value = "1", .min = 0, .max = 1e9, .commands = "train",
        .help = "epochs between checkpoints; 0: none"),
    ROW(INT, save_steps, NOTHING, .value = "0", .min = 0, .max = 1e15, .commands = "train",
        .help = "steps between further checkpoints; 0: none"),
    ROW(INT, keep, NOTHING, .value = "2", .min = 1, .max = 1e6, .commands = "train,checkpoint",
        .help = "checkpoints to keep, besides the best"),
    ROW(BOOL, async_save, NOTHING, .value = "false", .commands = "train",
        .help = "save in the background: a step waits only for a copy in memory"),
    ROW(TEXTS, allow_change, UNRECORDED, .repeats = 1, .commands = "train",
        .help = "keys that may differ from the checkpoint's although they change the run; also data"),
    ROW(INT, max_restarts, NOTHING, .value = "0", .min = 0, .max = 1e6, .commands = "train,supervise",
        .help = "how often all ranks are restarted from the last checkpoint after a crash; with --elastic how often "
                "ranks that died are started again, to join those that went on"),
    ROW(BOOL, elastic, NOTHING, .value = "false", .commands = "train",
        .help = "when a rank dies, the others go on without it, with the same samples in each step"),
    ROW(INT, min_ranks, NOTHING, .value = "1", .min = 1, .max = 1e6, .commands = "train",
        .help = "with --elastic: the fewest ranks to go on with; with fewer the run ends as it does without"),
    ROW(BOOL, replicate_state, NOTHING, .value = "false", .commands = "train,plan",
        .help = "with --elastic: each rank's state is kept, after each step, in memory that outlives the rank, so that "
                "the others go on at the step that was interrupted; without: from the last checkpoint"),

    ROW(TEXT, device, ROUNDING, .value = "cpu", .check = tri__device_check,
        .commands = "train,eval,predict,serve,plan,choose,simulate,bench,quantize,calibrate,explain",
        .help = "where to compute: cpu, cuda (a GPU)"),
    ROW(INT, threads, NOTHING, .value = "0", .min = 0, .max = 4096,
        .commands = "train,eval,predict,serve,plan,choose,simulate,inspect,tokenize,vocab,demo,bench,quantize,explain",
        .help = "threads of a rank; 0: the cores this process may use; plan, simulate: 0 is a rank's share of a "
                "node's cores"),
    ROW(INT, num_workers, NOTHING, .value = "4", .min = 0, .max = 256, .commands = "train,eval,predict,quantize",
        .help = "threads that prepare batches, at most the cores that computing leaves free (at least one)"),
    ROW(INT, nproc_per_node, ROUNDING, .value = "1", RANKS, .choices = "auto=0|cpu=0|gpu=-1",
        .commands = "train,eval,predict,serve,plan,choose,simulate,mesh,bench,calibrate",
        .help = "ranks on each machine; auto or cpu: one for each core; gpu: one for each GPU"),
    ROW(INT, world_size, ROUNDING, .value = "1", RANKS,
        .commands = "train,eval,predict,serve,plan,choose,simulate,mesh",
        .help = "ranks in all; default: those of all machines"),
    ROW(CHOICE, layout, NOTHING, .value = "given", .choices = "given|auto", .commands = "train",
        .help = "auto: the first choice of `trident choose` for these ranks; what is given beside it stays; a resumed "
                "run keeps its layout"),
    ROW(INT, pp_size, ROUNDING, .value = "1", RANKS,
        .commands = "train,eval,predict,serve,plan,choose,simulate,bench,mesh", .help = "pipeline stages"),
    ROW(INT, tp_size, ROUNDING, .value = "1", RANKS, .commands = "train,eval,predict,serve,plan,choose,simulate,mesh",
        .help = "ranks that share each layer (tensor parallelism)"),
    ROW(INT, cp_size, ROUNDING, .value = "1", RANKS, .commands = "train,eval,predict,serve,plan,choose,simulate,mesh",
        .help = "ranks that share the tokens of each text (context parallelism)"),
    ROW(CHOICE, cp_mode, ROUNDING, .value = "auto", .choices = "auto|ring|heads",
        .commands = "train,eval,predict,plan,choose,simulate",
        .help = "how ranks that share tokens attend to all of them: ring: keys and values travel around; heads: ranks "
                "exchange tokens for heads, which cp x tp has to divide; auto: the faster one by simulation"),
    ROW(INT, dp_size, ROUNDING, .value = "0", .min = 0, .max = 1 << 20,
        .commands = "train,eval,predict,serve,plan,choose,simulate,mesh",
        .help = "replicas; 0: what the other axes leave"),
    ROW(INT, ep_size, ROUNDING, .value = "1", RANKS, .commands = "train,eval,predict,plan,simulate,mesh",
        .help = "replicas that share the experts of each layer (expert parallelism); divides --dp-size"),
    ROW(TEXT, mesh_order, ROUNDING, .value = "pp,tp,dp", .check = check_order,
        .commands = "train,eval,predict,serve,plan,choose,simulate,mesh",
        .help = "axes of the mesh, outermost first; auto: so that tensor groups stay inside a machine"),
    ROW(CHOICE, transport, NOTHING, .value = "auto", .choices = "auto|shm|mpi", .commands = "train,eval,predict,serve",
        .help = "how ranks communicate; auto: shared memory, and MPI between machines"),
    ROW(REAL, progress_timeout, NOTHING, .value = "30", .min = 0.25, .max = 1e9,
        .commands = "train,eval,predict,serve,bench,calibrate",
        .help = "seconds without progress after which a rank counts as hung"),
    ROW(REAL, io_timeout, NOTHING, .value = "600", .min = 0.25, .max = 1e9,
        .commands = "train,eval,predict,serve,bench,calibrate",
        .help = "seconds that one file call of a rank may take before it counts as hung: a slow disk is no hang"),
    ROW(CHOICE, bind_cores, NOTHING, .value = "none", .choices = "none|core", .commands = "train,eval,predict,serve",
        .help = "core: each rank is pinned to its share of the cores"),

    ROW(TEXT, nnodes, UNRECORDED, .value = "1", .commands = "train,eval,predict,serve,plan,choose,simulate,mesh",
        .help = "machines; more than one: through mpirun or srun; MIN:MAX with --elastic: each start under `trident "
                "supervise` may have another number"),
    ROW(INT, node_rank, UNRECORDED, .value = "0", .min = 0, .max = 1 << 20, .commands = "train", .heading = "torchrun",
        .help = "this machine's number"),
    ROW(BOOL, standalone, UNRECORDED, .value = "false", .commands = "train", .heading = "torchrun",
        .help = "one machine, whatever the rdzv options say"),
    ROW(CHOICE, rdzv_backend, UNRECORDED, .value = "static", .choices = "static|c10d", .commands = "train",
        .heading = "torchrun", .help = "how machines meet"),
    ROW(TEXT, rdzv_endpoint, UNRECORDED, .commands = "train", .heading = "torchrun",
        .help = "host:port where machines meet"),
    ROW(TEXT, rdzv_id, UNRECORDED, .value = "none", .commands = "train", .heading = "torchrun",
        .help = "the job's name, in the path of its logs"),
    ROW(TEXT, rdzv_conf, UNRECORDED, .commands = "train", .heading = "torchrun",
        .help = "further rendezvous settings, k=v,k=v"),
    ROW(TEXT, master_addr, UNRECORDED, .commands = "train", .heading = "torchrun", .help = "host of rank 0"),
    ROW(INT, master_port, UNRECORDED, .value = "0", .min = 0, .max = 65535, .commands = "train", .heading = "torchrun",
        .help = "port of rank 0; 0: 29500"),
    ROW(TEXT, log_dir, UNRECORDED, .commands = "train", .heading = "torchrun",
        .help = "folder of the ranks' logs; default: logs in the run folder"),
    ROW(TEXT, redirects, UNRECORDED, .value = "0", .commands = "train", .heading = "torchrun",
        .help = "what goes to log files: 0 nothing, 1 stdout, 2 stderr, 3 both; or rank:N,rank:N; -r for short"),
    ROW(TEXT, tee, UNRECORDED, .value = "0", .commands = "train", .heading = "torchrun",
        .help = "the same, and shown on the console as well; -t for short"),
    ROW(TEXT, local_ranks_filter, UNRECORDED, .commands = "train", .heading = "torchrun",
        .help = "ranks of this machine whose output is shown, e.g. 0,1; default: all"),

    ROW(CHOICE, shard, ROUNDING, .value = "none", .alias = "sharding_strategy",
        .commands = "train,eval,predict,serve,plan,choose,simulate",
        .choices =
            "none|zero1|zero2|zero3|hybrid|NO_SHARD=none|SHARD_GRAD_OP=zero2|FULL_SHARD=zero3|HYBRID_SHARD=hybrid",
        .help = "what replicas shard: optimizer state, gradients, parameters"),
    ROW(INT, shard_size, ROUNDING, .value = "0", .min = 0, .max = 1 << 20,
        .commands = "train,eval,predict,serve,plan,choose,simulate",
        .help = "hybrid: replicas that hold one copy together; 0: those of a machine"),
    ROW(REAL, bucket_mb, ROUNDING, .value = "25", .min = 0.001, .max = 1e6, .commands = "train,plan,choose,simulate",
        .help = "size of a gradient bucket in MB; the first bucket has at most 1"),
    ROW(INT, prefetch, ROUNDING, .value = "1", .min = 0, .max = 1024,
        .commands = "train,eval,predict,serve,plan,choose,simulate",
        .help = "blocks of weights to gather ahead of the one in use"),
    ROW(CHOICE, reshard_after_forward, ROUNDING, .value = "auto", .choices = "auto|yes|no",
        .commands = "train,plan,choose,simulate",
        .help =
            "whether gathered weights are dropped after the forward pass; auto: unless they are needed again at once"),
    ROW(CHOICE, wrap, ROUNDING, .value = "layer", .choices = "layer|size",
        .commands = "train,eval,predict,serve,plan,choose,simulate",
        .help = "what is gathered at once: a unit (layer, embeddings, head), or units joined up to wrap_min_params"),
    ROW(INT, wrap_min_params, ROUNDING, .value = "100000000", .min = 1, .max = 1e15,
        .commands = "train,eval,predict,serve,plan,choose,simulate",
        .help = "smallest number of parameters of a block, with wrap size"),
    ROW(INT, check_replicas, NOTHING, .value = "0", .min = 0, .max = 1e15, .commands = "train",
        .help = "steps between comparisons of the replicas' weights; 0: only before the first"),
    ROW(CHOICE, schedule, NOTHING, .value = "1f1b", .choices = "gpipe|1f1b|interleaved|zb-h1|zbv",
        .commands = "train,eval,predict,serve,plan,choose,simulate", .help = "order of microbatches in the pipeline"),
    ROW(INT, virtual_stages, ROUNDING, .value = "0", .min = 0, .max = 1024,
        .commands = "train,eval,predict,serve,plan,choose,simulate",
        .help = "stages that each rank of a pipeline holds; 0: as few as the schedule allows"),
    ROW(CHOICE, pipeline_shape, ROUNDING, .value = "auto", .choices = "auto|chain|branch",
        .commands = "train,eval,predict,serve,plan,choose,simulate,bench",
        .help = "stages in a row, or the two encoders side by side; auto: the faster one"),
    ROW(TEXTS, stages, ROUNDING, .commands = "train,eval,predict,serve,plan,simulate",
        .help = "the units of each stage, e.g. primary.embeddings primary.layer.0-5; default: balanced by cost"),
    ROW(TEXT, stage_profile, ROUNDING, .commands = "train,plan,choose,simulate",
        .help = "stage_profile.json of an earlier run: stages are balanced by what was measured"),
    ROW(CHOICE, sequence_parallel, ROUNDING, .value = "auto", .choices = "auto|yes|no",
        .commands = "train,eval,predict,serve,plan,choose,simulate",
        .help = "with tp_size above 1: norms, dropout and residuals on shards of the tokens; auto: yes"),
    ROW(CHOICE, recompute, ROUNDING, .value = "none", .choices = "none|selective|full",
        .commands = "train,plan,choose,simulate,bench", .help = "activations to recompute instead of keeping"),
    ROW(TEXTS, offload, ROUNDING, .value = "none", .choices = "none|optimizer|gradients|params|activations",
        .commands = "train,eval,predict,serve,plan,choose,simulate,bench",
        .help = "what to keep in offload memory (a file in the run folder; for a GPU: host memory): none, optimizer, "
                "gradients, params, activations"),

    ROW(TEXT, memory_limit, NOTHING, .check = check_limit,
        .commands = "train,eval,predict,serve,plan,choose,simulate,bench,inspect",
        .help = "memory that the ranks of a machine may use together, e.g. 8G; default: what is free (inspect: for "
                "what it keeps of rows; default: 1G)"),

    ROW(BOOL, tune_products, ROUNDING, .value = "false", .commands = "train,bench",
        .help = "GPUs: choose algorithms of matrix products by timing them once; products.txt in the run folder keeps "
                "them"),

    ROW(INT, log_every, NOTHING, .value = "1", .min = 1, .max = 1e9, .commands = "train",
        .help = "steps between train events"),
    ROW(TEXTS, log_to, NOTHING, .repeats = 1, .commands = "train",
        .help = "refused: metrics.jsonl and TensorBoard's files have all figures, for any tool's own client"),
    ROW(BOOL, no_report, UNRECORDED, .value = "false", .commands = "train",
        .help = "write no report.html at the end of the run"),
    ROW(TEXT, profile, NOTHING, .check = check_profile, .commands = "train",
        .help = "steps to trace, e.g. wait=1,warmup=1,active=3"),
    ROW(INT, print_program, UNRECORDED, .value = "-1", .min = -1, .max = 1 << 20, .choices = "all=-2",
        .commands = "plan", .help = "print this rank's program; all: every rank's, one after the other"),
    ROW(CHOICE, print_kind, UNRECORDED, .value = "train", .choices = "train|infer|start|exchange",
        .commands = "plan",
        .help = "which program to print: a training step, an evaluation, the one that prepares weights, or the one "
                "that exchanges them for their averages"),
    ROW(TEXT, print_after, UNRECORDED, .commands = "plan",
        .help = "print the program as this pass leaves it (of rank 0, or of --print-program); help: lists them"),
    ROW(BOOL, timeline, UNRECORDED, .value = "false", .commands = "plan,simulate",
        .help = "draw the step: one row for each rank, what it computes when"),
    ROW(TEXT, svg, UNRECORDED, .commands = "plan,simulate", .help = "draw the step into this file as an SVG picture"),
    ROW(TEXT, attention_map, UNRECORDED, .commands = "plan",
        .help = "draw which keys queries attend to into this file as an SVG picture"),
    ROW(BOOL, csv, UNRECORDED, .value = "false", .commands = "plan",
        .help = "the pipeline's compute order, one line for each rank, in torchtitan's form"),
    ROW(BOOL, params, UNRECORDED, .value = "false", .commands = "plan",
        .help = "each parameter's stage, tensor split, owners and bytes"),
    ROW(TEXT, hardware, UNRECORDED, .commands = "plan,choose,simulate,bench",
        .help = "what to simulate on: h200x8, a100x8, cpu, or a JSON file"),
    ROW(REAL, price_per_hour, UNRECORDED, .value = "0", FROM(0), .commands = "simulate",
        .help = "price of one rank (a GPU; on CPUs its share of the machine) for an hour, for the cost of a run"),
    ROW(TEXTS, program, UNRECORDED, .repeats = 1, .commands = "simulate",
        .help = "files of printed programs to time instead of a plan's; those of all ranks"),
    ROW(BOOL, tiny, UNRECORDED, .value = "false", .commands = "train,plan,choose,simulate",
        .help = "shrink the encoders (64 wide, 2 layers or what the stages need), to try a layout on a small machine"),
    ROW(BOOL, check, UNRECORDED, .value = "false", .commands = "plan",
        .help = "prove that all ranks' programs fit together"),
    ROW(BOOL, force, UNRECORDED, .value = "false",
        .commands = "predict,explain,report,trace,calibrate,plan,simulate,inspect,vocab",
        .help = "replace output files that exist; never one that is an input"),
    ROW(BOOL, json, UNRECORDED, .value = "false", .commands = ALL, .help = "results as JSON on stdout"),
    ROW(BOOL, quiet, UNRECORDED, .value = "false", .commands = ALL, .help = "no progress on stderr"),
    ROW(BOOL, no_color, UNRECORDED, .value = "false", .commands = ALL, .help = "no colours"),
    {0}};
