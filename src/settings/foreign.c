/* foreign.c - the table of other programs' options. A row maps one to an option of ours, accepts it because it always
 * holds here, or refuses it and names the option to use. Of several rows of one name the first whose value matches
 * counts. A row may have several names, and values, separated by "|". Our own options are not listed, unless others
 * write a value in a form that our row does not accept. */
#include "settings/foreign.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Mapped to an option of ours: with the same value; or one value to another. */
#define SAME(name_, option_) {.name = name_, .option = option_}
#define TAKE(name_, value_, option_, to_) {.name = name_, .value = value_, .option = option_, .to = to_}
#define HELD(name_, value_, words_) {.name = name_, .value = value_, .held = 1, .words = words_}
#define NOT(name_, value_, words_) {.name = name_, .value = value_, .words = words_}
/* One value is the case here, others are refused. */
#define ONLY(name_, value_, held_, refused_) HELD(name_, value_, held_), NOT(name_, NULL, refused_)
/* A switch: on, it sets an option; off, it does nothing. */
#define SWITCH(name_, option_, to_) TAKE(name_, "true", option_, to_), HELD(name_, "false", "off changes nothing")

#define ACCUMULATE \
    "a step's whole batch is --batch-size, and --num-microbatches says in how many parts it is computed: for N parts " \
    "of B " \
    "samples give --batch-size NxB --num-microbatches N"
#define BACKEND \
    "ranks on GPUs (--device cuda) communicate through NCCL, ranks on CPUs through shared memory, and MPI between " \
    "machines, without being told; leave it out, or see --transport"
#define ENCODER "an encoder's architecture is its config.json, or the key primary_encoder of the configuration file: " \
                "--primary-tokenizer names the folder"
#define UNUSED "the plan knows the parameters of a step: none is unused"
#define TABLES "put train, valid and test tables into one folder and give that to --data-path"
#define SCHEDULE \
    "the learning rate rises for --warmup-steps, then follows --lr-schedule linear, cosine, constant or polynomial"
#define TO_ZERO "every --lr-schedule but constant falls to 0"
#define PLANNED "a step is planned before it runs: there is nothing to compile"
#define VALIDATED "validation takes place at each epoch's end, on the validation table of --data-path"
#define DECLARED \
    "ZeRO is --shard zero1, zero2 or zero3, its offload --offload optimizer,params, its 16 bits --precision bf16 or " \
    "fp16"
#define OVERLAPPED "transfers overlap with computing by the plan"

/* {"enabled": true, "theta": 0.5, "gamma": 0.001}; what is left out is DeepSpeed's default. */
static tri_status read_layer_drop(const char *origin, const tri_json *value, char out[static TRI_FOREIGN_TEXT]) {
    int enabled = 0;
    double number[] = {1, 0.001};
    const char *key;
    tri_json *member;
    tri__json_each_member(value, key, member) {
        int k = strcmp(key, "theta") == 0 ? 0 : strcmp(key, "gamma") == 0 ? 1 : strcmp(key, "enabled") == 0 ? 2 : 3;
        if (k == 3)
            return tri__fail(TRI_USAGE, "%s: unknown key \"%.64s\"; it has enabled, theta and gamma", origin, key);
        if (k == 2 ? !tri__json_is_boolean(member) : !tri__json_is_number(member))
            return tri__fail(TRI_USAGE, "%s: %s is %s", origin, key, k == 2 ? "true or false" : "a number");
        if (k == 2) enabled = tri__json_is_true(member);
        else number[k] = tri__json_number_value(member);
    }
    if (enabled) snprintf(out, TRI_FOREIGN_TEXT, "theta=%.17g,gamma=%.17g", number[0], number[1]);
    else snprintf(out, TRI_FOREIGN_TEXT, "none");
    return TRI_OK;
}

const tri_foreign tri__foreign[] = {
    /* precision */
    SWITCH("bf16", "precision", "bf16"),
    SWITCH("fp16", "precision", "fp16"),
    NOT("precision", "bf16-true",
        "weights and optimizer state stay in fp32; --precision bf16 computes in bf16 with them"),
    NOT("precision", "16-true",
        "weights and optimizer state stay in fp32; --precision fp16 computes in fp16 with them"),
    TAKE("mixed_precision", "no", "precision", "fp32"),
    SAME("mixed_precision", "precision"),
    TAKE("fp8_format", "hybrid", "precision", "fp8"),
    NOT("fp8_format", NULL, "--precision fp8 takes e4m3 forward and e5m2 for gradients, as the format hybrid does"),
    HELD("fp8_amax_history_len", "16", "scales follow the maxima of 16 steps"),
    NOT("fp8_amax_history_len", NULL, "with --precision fp8 scales follow the maxima of 16 steps"),
    HELD("fp8_amax_compute_algo", "max", "scales follow the largest of the history"),
    NOT("fp8_amax_compute_algo", NULL, "with --precision fp8 scales follow the largest of the history"),
    ONLY("tf32", "false", "fp32 is fp32 here", "fp32 is fp32 here; --precision bf16 is fast on tensor cores"),
    NOT("fp16_opt_level", NULL,
        "--precision fp16 is all there is: fp32 weights and optimizer state, the loss scaled as needed"),
    NOT("loss_scale|initial_loss_scale", NULL, "with --precision fp16 the loss scale follows the gradients"),
    SAME("grad_reduce_dtype", "reduce_dtype"),
    SWITCH("accumulate_allreduce_grads_in_fp32", "reduce_dtype", "fp32"),

    /* memory */
    TAKE("gradient_checkpointing", "true", "recompute", "full"),
    TAKE("gradient_checkpointing", "false", "recompute", "none"),
    SWITCH("activation_checkpointing|checkpoint_activations", "recompute", "full"),
    SWITCH("recompute_activations", "recompute", "selective"),
    SAME("recompute_granularity", "recompute"),
    NOT("recompute_method|recompute_num_layers", NULL,
        "--recompute full recomputes every layer, selective what is cheap and large in each"),
    SWITCH("cpu_offload", "offload", "params"),
    TAKE("offload_optimizer_device", "cpu", "offload", "optimizer"),
    ONLY("offload_optimizer_device", "none", "nothing is offloaded unless --offload says so",
        "--offload optimizer keeps it in the host's memory (of a GPU), or in a file of the run folder"),
    TAKE("offload_param_device", "cpu", "offload", "params"),
    ONLY("offload_param_device", "none", "nothing is offloaded unless --offload says so",
        "--offload params keeps them in the host's memory (of a GPU), or in a file of the run folder"),
    SWITCH("optimizer_cpu_offload", "offload", "optimizer"),
    ONLY("auto_find_batch_size", "false", "trident plan says what a batch needs",
        "trident plan says to the byte what a --batch-size needs, before anything is allocated"),

    /* batches */
    HELD("gradient_accumulation_steps|accumulate_grad_batches", "1",
        "a step's batch is computed in one part unless --num-microbatches says otherwise"),
    NOT("gradient_accumulation_steps|accumulate_grad_batches|micro_batch_size", NULL, ACCUMULATE),
    SAME("per_device_train_batch_size|per_gpu_train_batch_size|train_micro_batch_size_per_gpu", "batch_size"),
    SAME("train_batch_size", "global_batch_size"),
    NOT("per_device_eval_batch_size|eval_batch_size", NULL,
        "validation takes batches of --batch-size; trident eval has its own"),
    SAME("dataloader_num_workers", "num_workers"),
    HELD("dataloader_pin_memory|pin_memory", NULL, "copies to a GPU go through pinned memory"),
    ONLY("dataloader_drop_last|drop_last", "false", "the last batch of an epoch has the rows that are left",
        "the last batch of an epoch has the rows that are left; choose a --batch-size that divides them"),
    HELD("group_by_length", NULL,
        "texts are packed without padding, so there is nothing to group; --seed orders the rows"),

    /* DDP */
    TAKE("backend|dist_backend|distributed_backend|ddp_backend", "mpi", "transport", "mpi"),
    NOT("backend|dist_backend|distributed_backend|ddp_backend", NULL, BACKEND),
    HELD("find_unused_parameters|ddp_find_unused_parameters", NULL, UNUSED),
    SAME("ddp_bucket_cap_mb|bucket_cap_mb", "bucket_mb"),
    SAME("ddp_timeout", "progress_timeout"),
    NOT("distributed_timeout_minutes", NULL, "--progress-timeout has it, in seconds"),
    HELD("ddp_broadcast_buffers|broadcast_buffers", NULL,
        "the model has no buffers: all trained values are equal on all replicas"),
    HELD("gradient_as_bucket_view", NULL, "gradients are stored in their buckets"),
    HELD("static_graph", NULL, "every step has the same plan"),
    NOT("ddp_comm_hook", NULL, "--reduce-dtype bf16 sends gradients in 16 bits"),
    NOT("ddp_*", NULL, "unsharded replicas are --shard none, with --bucket-mb and --reduce-dtype for their sums"),
    HELD("overlap_grad_reduce", "true", OVERLAPPED),
    HELD("overlap_param_gather", "true", OVERLAPPED "; --prefetch says how far ahead"),
    NOT("overlap_grad_reduce", "false", OVERLAPPED "; one bucket of --bucket-mb waits for the whole backward pass"),
    TAKE("overlap_param_gather", "false", "prefetch", "0"),
    HELD("sync_batchnorm", NULL, "the model has no batch norm"),

    /* FSDP */
    TAKE("fsdp", "full_shard|full_shard auto_wrap", "shard", "zero3"),
    TAKE("fsdp", "shard_grad_op|shard_grad_op auto_wrap", "shard", "zero2"),
    TAKE("fsdp", "hybrid_shard|hybrid_shard auto_wrap", "shard", "hybrid"),
    TAKE("fsdp", "no_shard", "shard", "none"),
    NOT("fsdp", NULL,
        "--shard zero3 is its full_shard, zero2 its shard_grad_op, hybrid its hybrid_shard; --offload params its "
        "offload"),
    NOT("fsdp_config", NULL,
        "its settings are options: --shard, --wrap, --prefetch, --reshard-after-forward, --offload, --recompute"),
    SAME("fsdp_sharding_strategy", "shard"),
    SWITCH("fsdp_offload_params", "offload", "params"),
    TAKE("fsdp_auto_wrap_policy", "transformer_based_wrap", "wrap", "layer"),
    TAKE("fsdp_auto_wrap_policy", "size_based_wrap", "wrap", "size"),
    NOT("fsdp_auto_wrap_policy", NULL, "--wrap layer gathers layer by layer, size joins them up to --wrap-min-params"),
    HELD("fsdp_transformer_layer_cls_to_wrap", NULL, "--wrap layer knows the encoders' layers"),
    SAME("fsdp_min_num_params", "wrap_min_params"),
    TAKE("backward_prefetch|fsdp_backward_prefetch", "backward_pre", "prefetch", "1"),
    TAKE("backward_prefetch", "no_prefetch|none", "prefetch", "0"),
    NOT("backward_prefetch", NULL, "--prefetch 1 gathers a block ahead, as backward_pre; 0 none"),
    TAKE("fsdp_backward_prefetch", "no_prefetch", "prefetch", "0"),
    NOT("fsdp_backward_prefetch", NULL, "--prefetch 1 gathers a block ahead, as backward_pre; 0 none"),
    HELD("forward_prefetch|fsdp_forward_prefetch", "true", "--prefetch gathers ahead in both passes"),
    NOT("forward_prefetch|fsdp_forward_prefetch", NULL, "--prefetch gathers ahead in both passes; 0: in neither"),
    HELD("limit_all_gathers", "true", "the plan bounds gathered blocks: --prefetch and one more"),
    NOT("limit_all_gathers", NULL, "the plan bounds gathered blocks: --prefetch N allows N and one more"),
    ONLY("sync_module_states|fsdp_sync_module_states", "true", "ranks begin with the same weights, and compare them",
        "ranks always begin with the same weights, and compare them; see --check-replicas"),
    HELD("use_orig_params|fsdp_use_orig_params", NULL, "parameters keep their names and shapes under every --shard"),
    HELD("fsdp_cpu_ram_efficient_loading", NULL, "every rank reads its own share of the weights only"),
    SWITCH("fsdp_activation_checkpointing", "recompute", "full"),
    TAKE("fsdp_reshard_after_forward|reshard_after_forward", "true", "reshard_after_forward", "yes"),
    TAKE("fsdp_reshard_after_forward|reshard_after_forward", "false", "reshard_after_forward", "no"),
    ONLY("fsdp_state_dict_type", "sharded_state_dict", "ranks save their shares, and any mesh reads them",
        "ranks save their shares, which any mesh reads; trident export writes whole tensors"),
    NOT("fsdp_*", NULL, "--shard zero3 is FSDP, with --wrap, --prefetch, --reshard-after-forward and --offload"),

    /* DeepSpeed */
    NOT("deepspeed|deepspeed_config|zero_optimization", NULL, DECLARED),
    NOT("deepspeed_*", NULL, DECLARED),
    TAKE("zero_stage", "0", "shard", "none"),
    TAKE("zero_stage", "1", "shard", "zero1"),
    TAKE("zero_stage", "2", "shard", "zero2"),
    TAKE("zero_stage", "3", "shard", "zero3"),
    TAKE("optimizer", "OneBitAdam", "optimizer", "onebit-adam"),
    TAKE("optimizer", "OneBitLamb", "optimizer", "onebit-lamb"),
    TAKE("optimizer", "ZeroOneAdam", "optimizer", "zero-one-adam"),
    {.name = "progressive_layer_drop", .option = "layer_drop", .read = read_layer_drop},
    NOT("zero_stage", NULL, "there are the stages 0 to 3, which are --shard none, zero1, zero2 and zero3"),
    SAME("gradient_clipping", "max_grad_norm"),
    SAME("num_gpus", "nproc_per_node"),
    NOT("hostfile|include", NULL, "several machines are started by mpirun or srun: --nnodes prints the lines"),

    /* torchrun and accelerate */
    ONLY("local_rank", "-1", "ranks learn their number from the launcher",
        "ranks learn their number from the launcher (LOCAL_RANK); --nproc-per-node starts them here"),
    NOT("rank", NULL, "ranks learn their number from the launcher (RANK); --nproc-per-node starts them here"),
    HELD("use_env", NULL, "ranks learn their number from the launcher"),
    NOT("no_python", NULL, "trident is the program itself; torchrun --no-python starts it, or --nproc-per-node here"),
    NOT("monitor_interval", NULL, "ranks are watched all the time; --progress-timeout says when one counts as hung"),
    SAME("num_machines", "nnodes"),
    SAME("machine_rank", "node_rank"),
    SAME("main_process_ip", "master_addr"),
    SAME("main_process_port", "master_port"),
    NOT("num_processes", NULL, "--nproc-per-node starts ranks on this machine; mpirun or srun on several"),
    NOT("multi_gpu", NULL, "--device cuda --nproc-per-node gpu takes all GPUs of this machine"),
    SWITCH("use_cpu|cpu|no_cuda", "device", "cpu"),

    /* Lightning */
    TAKE("accelerator", "cpu", "device", "cpu"),
    TAKE("accelerator", "gpu|cuda", "device", "cuda"),
    NOT("accelerator", NULL, "there are --device cpu and cuda; nothing is chosen by itself"),
    NOT("device", "gpu", "an NVIDIA GPU is --device cuda"),
    SAME("devices", "nproc_per_node"),
    SAME("num_nodes", "nnodes"),
    TAKE("strategy", "ddp|ddp_find_unused_parameters_false", "shard", "none"),
    TAKE("strategy", "fsdp|deepspeed_stage_3", "shard", "zero3"),
    TAKE("strategy", "deepspeed_stage_1", "shard", "zero1"),
    TAKE("strategy", "deepspeed_stage_2", "shard", "zero2"),
    NOT("strategy", NULL,
        "--shard says what replicas shard (none is DDP, zero3 FSDP), --pp-size and --tp-size cut the model"),
    SAME("max_epochs", "epochs"),
    NOT("min_epochs", NULL, "a run takes all of its --epochs"),
    SAME("gradient_clip_val", "max_grad_norm"),
    HELD("gradient_clip_algorithm", "norm", "--max-grad-norm bounds the global norm"),
    NOT("gradient_clip_algorithm", NULL, "--max-grad-norm bounds the global norm; values are not clipped one by one"),
    SAME("log_every_n_steps", "log_every"),
    SAME("default_root_dir", "output_dir"),
    SAME("ckpt_path", "resume"),
    HELD("enable_checkpointing", "true", "--save-every and --save-steps say when"),
    TAKE("enable_checkpointing", "false", "save_every", "0"),
    TAKE("enable_progress_bar", "false", "quiet", "true"),
    HELD("enable_progress_bar", "true", "there is one unless --quiet is given"),
    HELD("deterministic", NULL, "the same build, machine and seed give the same weights to the bit"),
    ONLY("num_sanity_val_steps", "0", "nothing is validated before the first epoch ends", VALIDATED),
    HELD("check_val_every_n_epoch", "1", VALIDATED),
    NOT("check_val_every_n_epoch|val_check_interval", NULL, VALIDATED),
    NOT("limit_train_batches", NULL, "--max-steps ends a run early"),
    NOT("fast_dev_run", NULL, "--max-steps 1 --tiny tries a run"),
    NOT("max_time", NULL,
        "a signal ends a run with a checkpoint, and Slurm's time limit is watched; --max-steps bounds steps"),
    NOT("profiler", NULL, "--profile wait=1,warmup=1,active=3 traces steps"),

    /* Hugging Face */
    SAME("num_train_epochs|num_epochs", "epochs"),
    SAME("max_seq_length|max_seq_len|max_length", "max_sen_len"),
    SAME("model_name_or_path|pretrained_model_name_or_path", "primary_tokenizer"),
    NOT("tokenizer_name", NULL, "one folder has tokenizer and encoder: --primary-tokenizer"),
    NOT("config_name", NULL, ENCODER),
    SAME("num_labels", "num_classes"),
    SAME("train_file", "data_path"),
    NOT("validation_file|test_file", NULL, TABLES),
    NOT("dataset_name", NULL, "--data-path takes a table (CSV, TSV, JSON lines) or a folder of them"),
    TAKE("overwrite_output_dir", "true", "resume", "never"),
    HELD("overwrite_output_dir", "false", "--resume auto goes on from the run folder's last checkpoint"),
    TAKE("resume_from_checkpoint", "true", "resume", "auto"),
    TAKE("resume_from_checkpoint", "false", "resume", "never"),
    SAME("resume_from_checkpoint", "resume"),
    SAME("save_total_limit", "keep"),
    TAKE("save_strategy", "epoch", "save_every", "1"),
    TAKE("save_strategy", "no", "save_every", "0"),
    NOT("save_strategy", NULL, "--save-every counts epochs, --save-steps steps"),
    HELD("eval_strategy|evaluation_strategy", "epoch", VALIDATED),
    NOT("eval_strategy|evaluation_strategy|eval_steps", NULL, VALIDATED),
    SAME("logging_steps", "log_every"),
    NOT("logging_dir", NULL, "metrics.jsonl and TensorBoard's files are in the run folder: --output-dir"),
    ONLY("report_to", "tensorboard", "TensorBoard's files and metrics.jsonl are in the run folder",
        "TensorBoard's files and metrics.jsonl are in the run folder (--output-dir); log them through another tool's "
        "own client; nothing is sent anywhere"),
    SWITCH("disable_tqdm", "quiet", "true"),
    HELD("load_best_model_at_end", NULL, "the best checkpoint is kept in addition to the newest --keep"),
    TAKE("metric_for_best_model", "eval_loss", "best_by", "loss"),
    TAKE("metric_for_best_model", "eval_accuracy", "best_by", "accuracy"),
    TAKE("metric_for_best_model", "eval_f1", "best_by", "f1"),
    TAKE("metric_for_best_model", "eval_roc_auc", "best_by", "roc_auc"),
    SAME("metric_for_best_model", "best_by"),
    HELD("greater_is_better", NULL,
        "--best-by loss is better when it is lower, the other figures when they are higher"),
    SAME("early_stopping_patience", "early_stopping"),
    ONLY("early_stopping_threshold", "0", "any improvement counts", "--early-stopping counts any improvement as one"),
    SAME("num_warmup_steps", "warmup_steps"),
    TAKE("lr_scheduler_type", "linear", "lr_schedule", "linear"),
    TAKE("lr_scheduler_type", "cosine", "lr_schedule", "cosine"),
    TAKE("lr_scheduler_type", "constant|constant_with_warmup", "lr_schedule", "constant"),
    TAKE("lr_scheduler_type", "polynomial", "lr_schedule", "polynomial"),
    NOT("lr_scheduler_type", NULL, SCHEDULE),
    SAME("layerwise_lr_decay|layer_decay|llrd", "layer_lr_decay"),
    SAME("classifier_lr|head_learning_rate", "head_lr"),
    SWITCH("freeze_embeddings", "freeze", "embeddings"),
    NOT("freeze_layers", NULL, "--freeze embeddings,layers=N freezes the first N layers of each encoder"),
    TAKE("optim", "adamw_torch|adamw_torch_fused|adamw_hf", "optimizer", "adamw"),
    SAME("optim", "optimizer"),
    SAME("adam_epsilon", "adam_eps"),
    SAME("label_smoothing_factor", "label_smoothing"),
    NOT("data_seed", NULL, "--seed is that of weights, order and dropout together"),
    HELD("do_train", "true", "trident train trains"),
    NOT("do_train", NULL, "trident train trains; trident eval --checkpoint RUN and predict do not"),
    ONLY("do_eval", "true", VALIDATED, VALIDATED),
    NOT("do_predict", NULL, "trident predict --checkpoint RUN writes predictions"),
    ONLY("torch_compile|compile", "false", PLANNED, PLANNED "; --tune-products times algorithms on GPUs"),
    NOT("attn_implementation", NULL, "there is one implementation of attention for each --device and --precision"),
    HELD("push_to_hub", "false", "nothing is sent anywhere"),
    NOT("push_to_hub", NULL, "nothing is sent anywhere; trident export --checkpoint RUN writes Hugging Face folders"),

    /* Megatron */
    SAME("tensor_model_parallel_size|tensor_parallel_size", "tp_size"),
    SAME("pipeline_model_parallel_size|pipeline_parallel_size", "pp_size"),
    SAME("data_parallel_size", "dp_size"),
    ONLY("context_parallel_size", "1", "texts are not cut over ranks",
        "texts are not cut over ranks; --tp-size with --sequence-parallel shards activations"),
    HELD("expert_model_parallel_size", "1", "the model has no experts"),
    NOT("expert_model_parallel_size", NULL, "the model has no experts; --tp-size shares each layer"),
    NOT("num_layers_per_virtual_pipeline_stage", NULL,
        "--schedule interleaved --virtual-stages V gives each rank V stages: V is the layers of a rank divided by this "
        "number"),
    SAME("num_virtual_stages_per_pipeline_rank", "virtual_stages"),
    TAKE("sequence_parallel", "true", "sequence_parallel", "yes"),
    TAKE("sequence_parallel", "false", "sequence_parallel", "no"),
    SWITCH("use_distributed_optimizer", "shard", "zero1"),
    SAME("train_iters", "max_steps"),
    SAME("lr_warmup_iters", "warmup_steps"),
    SAME("lr_warmup_fraction", "warmup_ratio"),
    TAKE("lr_decay_style", "linear", "lr_schedule", "linear"),
    TAKE("lr_decay_style", "cosine", "lr_schedule", "cosine"),
    TAKE("lr_decay_style", "constant", "lr_schedule", "constant"),
    NOT("lr_decay_style", NULL, SCHEDULE),
    NOT("lr_decay_iters", NULL, "the learning rate falls to 0 at the run's last step, that of --epochs or --max-steps"),
    ONLY("min_lr", "0", TO_ZERO, TO_ZERO),
    SAME("clip_grad", "max_grad_norm"),
    SAME("seq_length", "max_sen_len"),
    SAME("save", "output_dir"),
    SAME("load", "resume"),
    SAME("save_interval", "save_steps"),
    SAME("log_interval", "log_every"),
    NOT("eval_interval|eval_iters", NULL, VALIDATED),
    NOT("num_layers|hidden_size|num_attention_heads|hidden_dropout|attention_dropout", NULL, ENCODER),
    NOT("vocab_file", NULL, "--primary-tokenizer names the folder of a tokenizer and its encoder"),
    HELD("use_flash_attn", "true", "attention never stores its scores"),
    NOT("use_flash_attn", NULL, "attention never stores its scores; there is one implementation for each --device"),
    {0}};

int tri__foreign_truth(const char *word) {
    static const char *const words[] = {"false", "true", "no", "yes", "0", "1", "off", "on"};
    for (int i = 0; i < 8; i++)
        if (strcasecmp(word, words[i]) == 0) return i & 1;
    return -1;
}

/* Whether a name is one of the row's: dashes and underscores are equal, and one may end in "*". */
static int is_name(const char *row, const char *name) {
    for (;; row++) {
        const char *at = name;
        for (; *row && !strchr("|*", *row) && *row == (*at == '-' ? '_' : *at); row++) at++;
        if (*row == '*' || (!*at && (!*row || *row == '|'))) return 1;
        row += strcspn(row, "|");
        if (!*row) return 0;
    }
}

static int is_value(const char *row, const char *value) {
    int truth = row ? tri__foreign_truth(row) : -1, is_word = row && (!strcmp(row, "true") || !strcmp(row, "false"));
    if (!row) return 1;
    if (is_word) return (value ? tri__foreign_truth(value) : 1) == truth;
    size_t length = value ? strlen(value) : 0;
    for (; value; row++) {
        if (strncasecmp(row, value, length) == 0 && (!row[length] || row[length] == '|')) return 1;
        row += strcspn(row, "|");
        if (!*row) break;
    }
    return 0;
}

const tri_foreign *tri__foreign_find(const char *name, const char *value) {
    for (const tri_foreign *row = tri__foreign; row->name; row++)
        if (is_name(row->name, name) && is_value(row->value, value)) return row;
    return NULL;
}

int tri__foreign_is_switch(const char *name) {
    int is_switch = 0;
    for (const tri_foreign *row = tri__foreign; row->name; row++) {
        if (!is_name(row->name, name)) continue;
        if (!row->value && row->option) return 0; /* accepts other values too */
        is_switch |= row->value && (!strcmp(row->value, "true") || !strcmp(row->value, "false"));
    }
    return is_switch;
}
