/* options.c - the run's options, one row each. Adding one: a row here and a field of tri_settings. Rows whose scope has
 * "config" may stand in the configuration file and are recorded; the others only say how to show things. Help lists those of
 * "optimisation" under a heading of their own. */
#include "train/settings.h"

#include <math.h>
#include <stddef.h>

#define ROW(kind_, field_, ...) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(tri_settings, field_), __VA_ARGS__}
#define FROM(least) .min = (least), .max = INFINITY
#define RANKS .min = 1, .max = 1 << 20
#define ALL "train,eval,predict,plan,inspect,demo,digest,doctor"

const tri_option tri__run_options[] = {
    ROW(TEXT, config, .scope = "train,plan,inspect", .help = "configuration file: the model's keys and the run's, in JSON"),
    ROW(TEXT, data_path, .scope = "train,eval,predict,plan,config",
        .help = "table (.csv, .tsv, .jsonl), or a folder of train, valid (or val) and test tables"),
    ROW(TEXT, output_dir, .value = "./outputs", .scope = "train,demo,config",
        .help = "run folder: metrics, checkpoints, summary"),
    ROW(TEXT, models_dir, .scope = "train,plan,inspect,config",
        .help = "folder that holds the folders of tokenizers and encoders"),
    ROW(TEXT, column_info, .scope = "train,plan,config",
        .help = "column_info.json of the Multimodal-Toolkit: which columns are what; left out: the data folder's, if no text is named"),
    ROW(CHOICE, bad_rows, .value = "fail", .choices = "fail|skip", .scope = "train,eval,predict,plan,inspect,config",
        .help = "a row that cannot be read: stop there, or leave it out and count it"),
    ROW(TEXT, cache_dir, .scope = "train,eval,predict,plan,config",
        .help = "folder of token stores; none: no store; left out: cache in the run folder of train"),
    ROW(TEXT, checkpoint, .scope = "eval,predict,digest", .help = "a checkpoint, or a run folder"),
    ROW(TEXT, tokenizer, .scope = "inspect",
        .help = "folder of a tokenizer, or its name in --models-dir"),
    ROW(TEXT, write_config, .scope = "inspect", .help = "write a starter configuration to this file"),
    ROW(TEXT, output, .scope = "predict", .help = "file to write; -o for short; left out: stdout"),

    ROW(INT, batch_size, .value = "32", .min = 1, .max = 1 << 20, .scope = "train,eval,predict,plan,config,optimisation",
        .help = "samples of a step on each replica"),
    ROW(INT, global_batch_size, .value = "0", .min = 0, .max = 1 << 24, .scope = "train,plan,config,optimisation",
        .help = "samples of a step in all; 0: batch_size on each replica"),
    ROW(INT, num_microbatches, .value = "1", .min = 1, .max = 1 << 16, .scope = "train,plan,config,optimisation",
        .help = "parts that a replica's batch is computed in, one after another"),
    ROW(INT, epochs, .value = "10", .min = 1, .max = 1e9, .scope = "train,plan,config,optimisation",
        .help = "passes over the data"),
    ROW(INT, max_steps, .value = "0", .min = 0, .max = 1e15, .scope = "train,plan,config,optimisation",
        .help = "stop after so many steps; 0: no limit"),
    ROW(INT, max_tokens, .value = "0", FROM(0), .scope = "train,eval,predict,plan,config",
        .help = "most tokens of one text branch in a microbatch; 0: as the data needs"),

    ROW(REAL, lr, .value = "2e-5", FROM(0), .alias = "learning_rate", .scope = "train,config,optimisation",
        .help = "learning rate after warm-up; it then falls to 0 linearly"),
    ROW(INT, warmup_steps, .value = "0", FROM(0), .scope = "train,config,optimisation", .help = "steps of linear warm-up"),
    ROW(REAL, weight_decay, .value = "0.01", FROM(0), .scope = "train,config,optimisation",
        .help = "decoupled weight decay of AdamW"),
    ROW(TEXTS, no_decay, .value = "bias,LayerNorm.weight,norm.weight", .scope = "train,config,optimisation",
        .help = "parameters whose name contains one of these do not decay"),
    ROW(REAL, adam_beta1, .value = "0.9", .min = 0, .max = 0.9999999, .scope = "train,config,optimisation",
        .help = "AdamW's decay of the mean"),
    ROW(REAL, adam_beta2, .value = "0.999", .min = 0, .max = 0.9999999, .scope = "train,config,optimisation",
        .help = "AdamW's decay of the mean square"),
    ROW(REAL, adam_eps, .value = "1e-8", .min = 1e-30, .max = 1, .scope = "train,config,optimisation", .help = "AdamW's epsilon"),
    ROW(REAL, max_grad_norm, .value = "1.0", FROM(0), .scope = "train,config,optimisation",
        .help = "gradients are scaled down to this global norm; 0: never"),
    ROW(CHOICE, precision, .value = "fp32", .choices = "fp32|bf16|fp16", .scope = "train,plan,config",
        .help = "arithmetic"),
    ROW(INT, seed, .value = "42", .min = 0, .max = 4294967295.0, .scope = "train,demo,config",
        .help = "of initial weights, order and dropout"),

    ROW(TEXT, resume, .value = "auto", .scope = "train,config",
        .help = "auto: from the run folder's last checkpoint, if any; never; or a checkpoint's folder"),
    ROW(INT, save_every, .value = "1", .min = 0, .max = 1e9, .scope = "train,config",
        .help = "epochs between checkpoints; 0: none"),
    ROW(INT, save_steps, .value = "0", .min = 0, .max = 1e15, .scope = "train,config",
        .help = "steps between further checkpoints; 0: none"),
    ROW(INT, keep, .value = "2", .min = 1, .max = 1e6, .scope = "train,config",
        .help = "checkpoints to keep, besides the best"),

    ROW(TEXT, device, .value = "cpu", .scope = "train,eval,predict,plan,config", .help = "where to compute"),
    ROW(INT, threads, .value = "0", .min = 0, .max = 4096, .scope = "train,eval,predict,inspect,demo,config",
        .help = "threads of a rank; 0: the cores this process may use"),
    ROW(INT, num_workers, .value = "4", .min = 0, .max = 256, .scope = "train,eval,predict,config",
        .help = "threads that assemble batches, at most the cores that computing leaves free (one at least)"),
    ROW(INT, nproc_per_node, .value = "1", RANKS, .scope = "train,config", .help = "ranks to start on this machine"),
    ROW(INT, world_size, .value = "1", RANKS, .scope = "train,plan,config", .help = "ranks in all"),
    ROW(INT, pp_size, .value = "1", RANKS, .scope = "train,plan,config", .help = "pipeline stages"),
    ROW(INT, tp_size, .value = "1", RANKS, .scope = "train,plan,config",
        .help = "ranks that share each layer (tensor parallelism)"),
    ROW(INT, dp_size, .value = "0", .min = 0, .max = 1 << 20, .scope = "train,plan,config",
        .help = "replicas; 0: as many as ranks are left"),
    ROW(CHOICE, shard, .value = "none", .alias = "sharding_strategy", .scope = "train,plan,config",
        .choices = "none|zero1|zero2|zero3|hybrid|NO_SHARD=none|SHARD_GRAD_OP=zero2|FULL_SHARD=zero3|HYBRID_SHARD=hybrid",
        .help = "what replicas share out: optimizer state, gradients, parameters"),
    ROW(CHOICE, schedule, .value = "1f1b", .choices = "gpipe|1f1b|interleaved|zb-h1|zbv", .scope = "train,plan,config",
        .help = "order of microbatches in the pipeline"),
    ROW(CHOICE, recompute, .value = "none", .choices = "none|selective|full", .scope = "train,plan,config",
        .help = "activations to compute again instead of keeping"),
    ROW(TEXT, offload, .value = "none", .scope = "train,plan,config", .help = "what to keep in the second memory"),

    ROW(INT, log_every, .value = "1", .min = 1, .max = 1e9, .scope = "train,config",
        .help = "steps between train events"),
    ROW(TEXT, profile, .scope = "train,config", .help = "steps to trace, e.g. wait=1,warmup=1,active=3"),
    ROW(INT, print_program, .value = "-1", .min = -1, .max = 1 << 20, .scope = "plan",
        .help = "print this rank's program"),
    ROW(BOOL, check, .value = "false", .scope = "plan", .help = "prove that all ranks' programs fit together"),
    ROW(BOOL, json, .value = "false", .scope = ALL, .help = "results as JSON on stdout"),
    ROW(BOOL, quiet, .value = "false", .scope = ALL, .help = "no progress on stderr"),
    ROW(BOOL, no_color, .value = "false", .scope = ALL, .help = "no colours"),
    {0}};
