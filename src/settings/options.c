/* options.c - the run's options, one row each. Adding one: a row here and a field of tri_settings. Rows whose scope has
 * "config" may stand in the configuration file and are recorded; the others only say how to show things. Help lists
 * those of "optimisation" and of "torchrun" (as its users know them) under headings of their own. */
#include "settings/settings.h"

#include "device/device.h"
#include "settings/forms.h"

#include <math.h>
#include <stddef.h>

#define ROW(kind_, field_, ...) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(tri_settings, field_), __VA_ARGS__}
#define FROM(least) .min = (least), .max = INFINITY
#define RANKS .min = 1, .max = 1 << 20
#define ALL \
    "train,eval,predict,plan,simulate,inspect,demo,export,digest,checkpoint,supervise,doctor,tokenize,vocab,mesh," \
    "bench"

static tri_status check_order(const char *text) {
    tri_mesh mesh = {.pp = 1, .tp = 1, .dp = 1};
    return tri__mesh_set_order(&mesh, text, 1);
}

static tri_status check_profile(const char *text) {
    tri_profile_steps steps;
    return tri__profile_parse(text, &steps);
}

static tri_status check_limit(const char *text) {
    int64_t bytes;
    return tri__memory_limit_parse(text, &bytes);
}

const tri_option tri__run_options[] = {
    ROW(TEXT, config, .scope = "train,plan,simulate,inspect",
        .help = "configuration file: the model's keys and the run's, in JSON"),
    ROW(TEXT, data_path, .scope = "train,eval,predict,plan,simulate,config",
        .help = "table (.csv, .tsv, .jsonl), or a folder of train, valid (or val) and test tables"),
    ROW(TEXT, output_dir, .value = "./outputs", .scope = "train,demo,export,supervise,config",
        .help = "run folder: metrics, checkpoints, summary; of an export: the folder to be made"),
    ROW(TEXT, models_dir, .scope = "train,plan,simulate,inspect,tokenize,config",
        .help = "folder that holds the folders of tokenizers and encoders"),
    ROW(TEXT, column_info, .scope = "train,plan,simulate,config",
        .help = "column_info.json of the Multimodal-Toolkit: which columns are what; left out: the data folder's, if "
                "no text is named"),
    ROW(CHOICE, bad_rows, .value = "fail", .choices = "fail|skip",
        .scope = "train,eval,predict,plan,simulate,inspect,config",
        .help = "a row that cannot be read: stop there, or leave it out and count it"),
    ROW(TEXT, separator, .value = "auto", .scope = "train,eval,predict,plan,simulate,inspect,tokenize,vocab,config",
        .help = "what separates fields of CSV: comma, semicolon, tab, pipe, or the character; auto: recognised"),
    ROW(CHOICE, decimal_mark, .value = "auto", .choices = "auto|point|comma|.=point|,=comma",
        .scope = "train,eval,predict,plan,simulate,inspect,config",
        .help = "what stands before a fraction; auto: recognised where commas do not separate; eval, predict: as in "
                "training"),
    ROW(TEXT, cache_dir, .scope = "train,eval,predict,plan,simulate,config",
        .help = "folder of token stores; none: no store; left out: cache in the run folder of train"),
    ROW(TEXT, checkpoint, .scope = "eval,predict,export,digest", .help = "a checkpoint, an export, or a run folder"),
    ROW(TEXT, tokenizer, .scope = "inspect,tokenize", .help = "folder of a tokenizer, or its name in --models-dir"),
    ROW(TEXT, write_config, .scope = "inspect", .help = "write a starter configuration to this file"),
    ROW(TEXT, output, .scope = "predict,vocab",
        .help = "file to write: .csv, .tsv, .jsonl (vocab: folder); -o for short; left out: stdout"),
    {.name = "keep",
     .kind = TRI_OPTION_TEXTS,
     .offset = offsetof(tri_settings, keep_columns),
     .repeats = 1,
     .scope = "predict",
     .help = "columns of the table to write before each prediction, or all"},
    ROW(INT, top_k, .value = "0", .min = 0, .max = 65536, .scope = "predict",
        .help = "write so many classes, the most probable first; 0: the probability of each class"),
    ROW(TEXT, column, .scope = "tokenize,vocab",
        .help = "files are tables (CSV, TSV, JSON lines), and texts this column; left out: lines"),
    ROW(BOOL, null, .value = "false", .scope = "tokenize,vocab", .help = "texts end in a 0 byte instead of a newline"),
    ROW(INT, max_len, .value = "0", .min = 0, .max = 1 << 28, .scope = "tokenize",
        .help = "most ids of a text, special tokens too; 0: all"),
    ROW(BOOL, pieces, .value = "false", .scope = "tokenize", .help = "print pieces, not ids"),
    ROW(INT, size, .value = "30000", .min = 7, .max = 1e7, .scope = "vocab", .help = "most pieces of the vocabulary"),
    ROW(BOOL, lower_case, .value = "false", .scope = "vocab",
        .help = "lower-case texts and strip accents, now and when it is used"),

    ROW(INT, batch_size, .value = "32", .min = 1, .max = 1 << 20,
        .scope = "train,eval,predict,plan,simulate,config,optimisation", .help = "samples of a step on each replica"),
    ROW(INT, global_batch_size, .value = "0", .min = 0, .max = 1 << 24,
        .scope = "train,plan,simulate,config,optimisation",
        .help = "samples of a step in all; 0: batch_size on each replica"),
    ROW(INT, num_microbatches, .value = "0", .min = 0, .max = 1 << 16,
        .scope = "train,plan,simulate,bench,config,optimisation",
        .help = "parts that a replica's batch is computed in; 0: 2 x pp_size in a pipeline, else 1"),
    ROW(INT, epochs, .value = "10", .min = 1, .max = 1e9, .scope = "train,plan,simulate,config,optimisation",
        .help = "passes over the data"),
    ROW(INT, max_steps, .value = "0", .min = 0, .max = 1e15, .scope = "train,plan,simulate,bench,config,optimisation",
        .help = "stop after so many steps; 0: no limit"),
    ROW(INT, max_tokens, .value = "0", FROM(0), .scope = "train,eval,predict,plan,simulate,config",
        .help = "most tokens of one text branch in a microbatch; 0: as the data needs"),

    ROW(REAL, lr, .value = "2e-5", FROM(0), .alias = "learning_rate", .scope = "train,config,optimisation",
        .help = "learning rate after warm-up; it then falls to 0 linearly"),
    ROW(INT, warmup_steps, .value = "0", FROM(0), .scope = "train,config,optimisation",
        .help = "steps of linear warm-up"),
    ROW(REAL, weight_decay, .value = "0.01", FROM(0), .scope = "train,config,optimisation",
        .help = "decoupled weight decay of AdamW"),
    ROW(TEXTS, no_decay, .value = "bias,LayerNorm.weight,norm.weight", .scope = "train,config,optimisation",
        .help = "parameters whose name contains one of these do not decay"),
    ROW(REAL, adam_beta1, .value = "0.9", .min = 0, .max = 0.9999999, .scope = "train,config,optimisation",
        .help = "AdamW's decay of the mean"),
    ROW(REAL, adam_beta2, .value = "0.999", .min = 0, .max = 0.9999999, .scope = "train,config,optimisation",
        .help = "AdamW's decay of the mean square"),
    ROW(REAL, adam_eps, .value = "1e-8", .min = 1e-30, .max = 1, .scope = "train,config,optimisation",
        .help = "AdamW's epsilon"),
    ROW(REAL, max_grad_norm, .value = "1.0", FROM(0), .scope = "train,config,optimisation",
        .help = "gradients are scaled down to this global norm; 0: never"),
    ROW(CHOICE, precision, .value = "fp32", .scope = "train,plan,simulate,bench,config",
        .choices =
            "fp32|bf16|fp16|32=fp32|32-true=fp32|float32=fp32|bf16-mixed=bf16|bfloat16=bf16|16=fp16|16-mixed=fp16"
            "|float16=fp16",
        .help = "arithmetic"),
    ROW(CHOICE, reduce_dtype, .value = "fp32", .scope = "train,plan,simulate,config",
        .choices = "fp32|bf16|fp16|float32=fp32|bfloat16=bf16|float16=fp16",
        .help = "type in which gradients are kept and summed over replicas"),
    ROW(INT, seed, .value = "42", .min = 0, .max = 4294967295.0, .scope = "train,demo,config",
        .help = "of initial weights, order and dropout"),

    ROW(TEXT, resume, .value = "auto", .scope = "train,config",
        .help = "auto: from the run folder's last checkpoint, if any; never; or the folder of a checkpoint, or of an "
                "export: then its weights begin a new run"),
    ROW(INT, save_every, .value = "1", .min = 0, .max = 1e9, .scope = "train,config",
        .help = "epochs between checkpoints; 0: none"),
    ROW(INT, save_steps, .value = "0", .min = 0, .max = 1e15, .scope = "train,config",
        .help = "steps between further checkpoints; 0: none"),
    ROW(INT, keep, .value = "2", .min = 1, .max = 1e6, .scope = "train,checkpoint,config",
        .help = "checkpoints to keep, besides the best"),
    ROW(BOOL, async_save, .value = "false", .scope = "train,config",
        .help = "a step waits for a copy in memory only; threads write it"),
    ROW(TEXTS, allow_change, .repeats = 1, .scope = "train",
        .help = "keys that may differ from the checkpoint's although they change the run; also data"),
    ROW(INT, max_restarts, .value = "0", .min = 0, .max = 1e6, .scope = "train,supervise,config",
        .help = "times that all ranks are started again from the last checkpoint after one crashed"),

    ROW(TEXT, device, .value = "cpu", .check = tri__device_check,
        .scope = "train,eval,predict,plan,simulate,bench,config", .help = "where to compute: cpu, cuda (a GPU)"),
    ROW(INT, threads, .value = "0", .min = 0, .max = 4096,
        .scope = "train,eval,predict,inspect,tokenize,vocab,demo,bench,config",
        .help = "threads of a rank; 0: the cores this process may use"),
    ROW(INT, num_workers, .value = "4", .min = 0, .max = 256, .scope = "train,eval,predict,config",
        .help = "threads that assemble batches, at most the cores that computing leaves free (one at least)"),
    ROW(INT, nproc_per_node, .value = "1", RANKS, .choices = "auto=0|cpu=0|gpu=-1",
        .scope = "train,plan,simulate,mesh,bench,config",
        .help = "ranks on each machine; auto or cpu: one for each core; gpu: one for each GPU"),
    ROW(INT, world_size, .value = "1", RANKS, .scope = "train,plan,simulate,mesh,config",
        .help = "ranks in all; left out: those of all machines"),
    ROW(INT, pp_size, .value = "1", RANKS, .scope = "train,plan,simulate,bench,mesh,config", .help = "pipeline stages"),
    ROW(INT, tp_size, .value = "1", RANKS, .scope = "train,plan,simulate,mesh,config",
        .help = "ranks that share each layer (tensor parallelism)"),
    ROW(INT, dp_size, .value = "0", .min = 0, .max = 1 << 20, .scope = "train,plan,simulate,mesh,config",
        .help = "replicas; 0: as many as ranks are left"),
    ROW(TEXT, mesh_order, .value = "pp,tp,dp", .check = check_order, .scope = "train,plan,simulate,mesh,config",
        .help = "axes of the mesh, outermost first; auto: so that tensor groups stay inside a machine"),
    ROW(CHOICE, transport, .value = "auto", .choices = "auto|shm|mpi", .scope = "train,config",
        .help = "how ranks talk; auto: shared memory, and MPI between machines"),
    ROW(REAL, progress_timeout, .value = "30", .min = 0.25, .max = 1e9, .scope = "train,bench,config",
        .help = "seconds without progress after which a rank counts as hung"),
    ROW(CHOICE, bind_cores, .value = "none", .choices = "none|core", .scope = "train,config",
        .help = "core: each rank keeps to its share of the cores"),

    ROW(TEXT, nnodes, .value = "1", .scope = "train,plan,simulate,mesh",
        .help = "machines; more than one: through mpirun or srun"),
    ROW(INT, node_rank, .value = "0", .min = 0, .max = 1 << 20, .scope = "train,torchrun",
        .help = "this machine's number"),
    ROW(BOOL, standalone, .value = "false", .scope = "train,torchrun",
        .help = "one machine, whatever the rdzv options say"),
    ROW(CHOICE, rdzv_backend, .value = "static", .choices = "static|c10d", .scope = "train,torchrun",
        .help = "how machines meet"),
    ROW(TEXT, rdzv_endpoint, .scope = "train,torchrun", .help = "host:port where machines meet"),
    ROW(TEXT, rdzv_id, .value = "none", .scope = "train,torchrun", .help = "the job's name, in the path of its logs"),
    ROW(TEXT, rdzv_conf, .scope = "train,torchrun", .help = "further settings of the meeting, k=v,k=v"),
    ROW(TEXT, master_addr, .scope = "train,torchrun", .help = "host of rank 0"),
    ROW(INT, master_port, .value = "0", .min = 0, .max = 65535, .scope = "train,torchrun",
        .help = "port of rank 0; 0: 29500"),
    ROW(TEXT, log_dir, .scope = "train,torchrun",
        .help = "folder of the ranks' logs; left out: logs in the run folder"),
    ROW(TEXT, redirects, .value = "0", .scope = "train,torchrun",
        .help = "what goes to log files: 0 nothing, 1 stdout, 2 stderr, 3 both; or rank:N,rank:N; -r for short"),
    ROW(TEXT, tee, .value = "0", .scope = "train,torchrun", .help = "likewise, and shown as well; -t for short"),
    ROW(TEXT, local_ranks_filter, .scope = "train,torchrun",
        .help = "ranks of this machine whose lines are shown, e.g. 0,1; left out: all"),

    ROW(CHOICE, shard, .value = "none", .alias = "sharding_strategy", .scope = "train,plan,simulate,config",
        .choices =
            "none|zero1|zero2|zero3|hybrid|NO_SHARD=none|SHARD_GRAD_OP=zero2|FULL_SHARD=zero3|HYBRID_SHARD=hybrid",
        .help = "what replicas share out: optimizer state, gradients, parameters"),
    ROW(INT, shard_size, .value = "0", .min = 0, .max = 1 << 20, .scope = "train,plan,simulate,config",
        .help = "hybrid: replicas that hold one copy together; 0: those of a machine"),
    ROW(REAL, bucket_mb, .value = "25", .min = 0.001, .max = 1e6, .scope = "train,plan,simulate,config",
        .help = "gradients that are summed by one transfer, in MB; the first has at most 1"),
    ROW(INT, prefetch, .value = "1", .min = 0, .max = 1024, .scope = "train,plan,simulate,config",
        .help = "blocks of weights that are gathered ahead of the one in use"),
    ROW(CHOICE, reshard_after_forward, .value = "auto", .choices = "auto|yes|no", .scope = "train,plan,simulate,config",
        .help = "whether gathered weights go after the forward pass; auto: unless they are needed again at once"),
    ROW(CHOICE, wrap, .value = "layer", .choices = "layer|size", .scope = "train,plan,simulate,config",
        .help = "what is gathered at once: a unit (layer, embeddings, head), or units joined up to wrap_min_params"),
    ROW(INT, wrap_min_params, .value = "100000000", .min = 1, .max = 1e15, .scope = "train,plan,simulate,config",
        .help = "parameters that a block has at least, with wrap size"),
    ROW(INT, check_replicas, .value = "0", .min = 0, .max = 1e15, .scope = "train,config",
        .help = "steps between comparisons of the replicas' weights; 0: only before the first"),
    ROW(CHOICE, schedule, .value = "1f1b", .choices = "gpipe|1f1b|interleaved|zb-h1|zbv",
        .scope = "train,plan,simulate,config", .help = "order of microbatches in the pipeline"),
    ROW(INT, virtual_stages, .value = "0", .min = 0, .max = 1024, .scope = "train,plan,simulate,config",
        .help = "stages that each rank of a pipeline holds; 0: as few as the schedule allows"),
    ROW(CHOICE, pipeline_shape, .value = "auto", .choices = "auto|chain|branch",
        .scope = "train,plan,simulate,bench,config",
        .help = "stages in a row, or the two encoders side by side; auto: the faster one"),
    ROW(TEXTS, stages, .scope = "train,plan,simulate,config",
        .help = "the units of each stage, e.g. primary.embeddings primary.layer.0-5; left out: balanced by cost"),
    ROW(TEXT, stage_profile, .scope = "train,plan,simulate,config",
        .help = "stage_profile.json of an earlier run: stages are balanced by what was measured"),
    ROW(CHOICE, sequence_parallel, .value = "auto", .choices = "auto|yes|no", .scope = "train,plan,simulate,config",
        .help = "with tp_size above 1: norms, dropout and residuals on shards of the tokens; auto: yes"),
    ROW(CHOICE, recompute, .value = "none", .choices = "none|selective|full",
        .scope = "train,plan,simulate,bench,config", .help = "activations to compute again instead of keeping"),
    ROW(TEXTS, offload, .value = "none", .choices = "none|optimizer|gradients|params|activations",
        .scope = "train,plan,simulate,bench,config",
        .help = "none, or what to keep in offload memory (a file in the run folder; of a GPU: the host's memory): "
                "optimizer, gradients, params, activations"),

    ROW(TEXT, memory_limit, .check = check_limit, .scope = "train,plan,simulate,bench,config",
        .help = "memory that the ranks of a machine may plan for together, e.g. 8G; left out: what is free"),

    ROW(BOOL, tune_products, .value = "false", .scope = "train,bench,config",
        .help =
            "GPUs: choose algorithms of matrix products by timing them once; products.txt in the run folder remembers"),

    ROW(INT, log_every, .value = "1", .min = 1, .max = 1e9, .scope = "train,config",
        .help = "steps between train events"),
    ROW(TEXT, profile, .check = check_profile, .scope = "train,config",
        .help = "steps to trace, e.g. wait=1,warmup=1,active=3"),
    ROW(INT, print_program, .value = "-1", .min = -1, .max = 1 << 20, .scope = "plan",
        .help = "print this rank's program"),
    ROW(CHOICE, print_kind, .value = "train", .choices = "train|infer|start", .scope = "plan",
        .help = "which program to print: a training step, an evaluation, or what makes weights ready before them"),
    ROW(BOOL, timeline, .value = "false", .scope = "plan,simulate",
        .help = "draw the step: a row a rank, what it computes when"),
    ROW(BOOL, csv, .value = "false", .scope = "plan",
        .help = "the pipeline's compute order, a line a rank, in torchtitan's form"),
    ROW(BOOL, params, .value = "false", .scope = "plan",
        .help = "each parameter's stage, tensor split, owners and bytes"),
    ROW(TEXT, hardware, .scope = "plan,simulate", .help = "what to simulate on: h200x8, a100x8, cpu, or a JSON file"),
    ROW(BOOL, tiny, .value = "false", .scope = "train,plan,simulate",
        .help = "shrink the encoders (64 wide, 2 layers or what the stages need), to try a layout on a small machine"),
    ROW(TEXTS, op, .value = "all_reduce", .scope = "bench",
        .help = "what to measure: all, or some of all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, "
                "scatter, "
                "all_to_all, sendrecv, barrier"),
    ROW(TEXTS, sizes, .value = "4K,64K,1M,4M,25M,100M", .scope = "bench", .help = "bytes of an operation: 4K is 4096"),
    ROW(TEXTS, cases, .value = "tiny", .scope = "bench",
        .help = "step: models and batches to time, of tiny, minilm, base128, base512, base512real, large512, oneb"),
    ROW(CHOICE, lab_model, .value = "small", .choices = "tiny|small|large|deep|oneb", .scope = "bench",
        .help = "lab: tiny takes seconds, small about a minute; large has 1.07 billion parameters: too many for DDP in "
                "24 GiB; oneb 1.28 "
                "billion, for GPUs; deep: that of pipeline, small and of 8 layers"),
    ROW(TEXTS, layouts, .value = "all", .scope = "bench",
        .help = "lab: all, or some of one, ddp, zero1, zero2, zero3, zero3_no_prefetch, zero3_recompute, "
                "zero3_offload, pipeline, tensor"),
    ROW(TEXTS, schedules, .value = "all", .scope = "bench",
        .help = "pipeline: all, or some of gpipe, 1f1b, interleaved, zb-h1, zbv"),
    ROW(BOOL, check, .value = "false", .scope = "plan", .help = "prove that all ranks' programs fit together"),
    ROW(BOOL, json, .value = "false", .scope = ALL, .help = "results as JSON on stdout"),
    ROW(BOOL, quiet, .value = "false", .scope = ALL, .help = "no progress on stderr"),
    ROW(BOOL, no_color, .value = "false", .scope = ALL, .help = "no colours"),
    {0}};
