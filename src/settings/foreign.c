/* foreign.c - the table of other programs' options. A row maps one to an option of ours, accepts it because it always
 * holds here, or refuses it and names the option to use. Of several rows of one name the first whose value matches
 * counts. A row may have several names, and values, separated by "|". Our own options are not listed, unless others
 * write a value in a form that our row does not accept. */
#include "settings/foreign_rows.h"

#include "base/option.h"

#define BACKWARD_PREFETCH "backward_prefetch|fsdp_backward_prefetch|fsdp_backward_prefetch_policy"
#define WRAPS "auto_wrap_policy|fsdp_auto_wrap_policy"
#define BACKENDS "backend|dist_backend|distributed_backend|ddp_backend"
#define TO_ZERO "every --lr-schedule but constant falls to 0"
#define LAUNCHED "ranks learn their number from the launcher"
#define MAXIMA "scales follow the maxima of 16 steps"
#define OVERLAPPED "transfers overlap with computing by the plan"

/* {"enabled": true, "theta": 0.5, "gamma": 0.001}; what is left out is DeepSpeed's default. */
static tri_status read_layer_drop(const char *origin, const tri_json *value, char out[static TRI_FOREIGN_TEXT]) {
    int enabled = 0;
    double number[] = {1, 0.001};
    tri__json_members(value, m) {
        const char *key = m->key;
        int k = strcmp(key, "theta") == 0 ? 0 : strcmp(key, "gamma") == 0 ? 1 : strcmp(key, "enabled") == 0 ? 2 : 3;
        if (k == 3)
            return tri__fail(TRI_USAGE, "%s: unknown key \"%.64s\"; it has enabled, theta and gamma", origin, m->key);
        if (k == 2 ? !tri__json_is_boolean(m->value) : !tri__json_is_number(m->value))
            return tri__fail(TRI_USAGE, "%s: %s is %s", origin, m->key, k == 2 ? "true or false" : "a number");
        if (k == 2) enabled = tri__json_is_true(m->value);
        else number[k] = tri__json_number_value(m->value);
    }
    if (enabled) snprintf(out, TRI_FOREIGN_TEXT, "theta=%.17g,gamma=%.17g", number[0], number[1]);
    else snprintf(out, TRI_FOREIGN_TEXT, "none");
    return TRI_OK;
}

const tri_foreign tri__foreign[] = {
    /* precision */
    SWITCH("bf16", "precision", "bf16"), SWITCH("fp16", "precision", "fp16"),
    NOT("precision", "bf16-true|16-true", "weights and optimizer state stay in fp32; --precision computes with them"),
    TAKE("mixed_precision", "false", "precision", "fp32"), SAME("mixed_precision|param_dtype", "precision"),
    SWITCH("autocast", "precision", "bf16"), SAME("autocast", "precision"),
    TAKE("fp8_format|format", "hybrid", "precision", "fp8"),
    NOT("fp8_format|format", NULL, "--precision fp8 takes e4m3 forward and e5m2 for gradients, as hybrid does"),
    ONLY("fp8_amax_history_len|amax_history_len|amax_history_length", "16", MAXIMA, "with fp8 " MAXIMA),
    ONLY("fp8_amax_compute_algo|amax_compute_algo|amax_compute_algorithm", "max", MAXIMA, "with fp8 " MAXIMA),
    ONLY("tf32", "false", "fp32 is fp32 here", "fp32 is fp32 here; --precision bf16 is fast on tensor cores"),
    NOT("fp16_opt_level", NULL, "--precision fp16 keeps weights and state in fp32 and scales the loss as needed"),
    NOT("loss_scale|initial_loss_scale", NULL, LOSS_SCALE), SAME("grad_reduce_dtype", "reduce_dtype"),
    SWITCH("accumulate_allreduce_grads_in_fp32", "reduce_dtype", "fp32"),

    /* memory */
    TAKE("gradient_checkpointing", "true", "recompute", "full"),
    TAKE("gradient_checkpointing", "false", "recompute", "none"),
    SWITCH("activation_checkpointing|checkpoint_activations", "recompute", "full"),
    SWITCH("recompute_activations|megatron_lm_recompute_activations", "recompute", "selective"),
    SAME("recompute_granularity", "recompute"),
    NOT("recompute_method|recompute_num_layers", NULL, "--recompute full is every layer, selective what is cheap"),
    SWITCH("cpu_offload", "offload", "params"), TAKE("offload_optimizer_device", "cpu", "offload", "optimizer"),
    TAKE("offload_param_device", "cpu", "offload", "params"),
    ONLY("offload_optimizer_device|offload_param_device", "none", "nothing is, unless --offload says so", OFFLOADED),
    SWITCH("optimizer_cpu_offload", "offload", "optimizer"),
    ONLY("auto_find_batch_size", "false", "trident plan says what a batch needs",
        "trident plan says to the byte what a --batch-size needs, before anything is allocated"),

    /* batches */
    SAME("gradient_accumulation_steps|accumulate_grad_batches|megatron_lm_num_micro_batches", "num_microbatches"),
    {.name = "per_device_train_batch_size|per_gpu_train_batch_size|train_micro_batch_size_per_gpu|micro_batch_size",
     .option = "batch_size", .words = "times the accumulation steps, if any"},
    SAME("train_batch_size", "global_batch_size"),
    NOT("per_device_eval_batch_size|eval_batch_size", NULL, "validation takes batches of --batch-size"),
    SAME("dataloader_num_workers", "num_workers"),
    HELD("dataloader_pin_memory|pin_memory", NULL, "copies to a GPU go through pinned memory"),
    ONLY("dataloader_drop_last|drop_last", "false", "the last batch of an epoch has the rows that are left",
        "the last batch of an epoch has the rows that are left; choose a --batch-size that divides them"),
    HELD("group_by_length", NULL, "texts are packed without padding; --seed orders the rows"),

    /* DDP */
    TAKE(BACKENDS, "mpi", "transport", "mpi"),
    {.name = BACKENDS, .value = "nccl", .held = 1, .device = "cuda", .words = "ranks on GPUs communicate through NCCL"},
    {.name = BACKENDS, .value = "gloo", .held = 1, .device = "cpu",
     .words = "ranks on CPUs communicate through shared memory, and MPI between machines"},
    NOT(BACKENDS, NULL, "NCCL is for GPUs; CPUs have shared memory, and MPI between machines; see --transport"),

    SAME("ddp_bucket_cap_mb|bucket_cap_mb", "bucket_mb"), SAME("ddp_timeout", "progress_timeout"),
    {.name = "distributed_timeout_minutes", .option = "progress_timeout", .scale = 60},
    HELD("ddp_broadcast_buffers|broadcast_buffers|buffer_dtype|sync_batchnorm", NULL, "there are no buffers"),
    HELD("find_unused_parameters|ddp_find_unused_parameters|gradient_as_bucket_view|static_graph", NULL,
        "every step has the same plan: no parameter is unused, and gradients are stored in their buckets"),
    NOT("ddp_comm_hook", NULL, "--reduce-dtype bf16 sends gradients in 16 bits"),
    NOT("ddp_*", NULL, "unsharded replicas are --shard none, with --bucket-mb and --reduce-dtype for their sums"),
    HELD("overlap_grad_reduce|overlap_param_gather", "true", OVERLAPPED "; --prefetch says how far ahead"),
    NOT("overlap_grad_reduce", "false", OVERLAPPED "; one bucket of --bucket-mb waits for the whole backward pass"),
    TAKE("overlap_param_gather", "false", "prefetch", "0"),

    /* FSDP */
    TAKE("fsdp", "full_shard|full_shard auto_wrap", "shard", "zero3"),
    TAKE("fsdp", "shard_grad_op|shard_grad_op auto_wrap", "shard", "zero2"),
    TAKE("fsdp", "hybrid_shard|hybrid_shard auto_wrap", "shard", "hybrid"), TAKE("fsdp", "no_shard", "shard", "none"),
    NOT("fsdp", NULL, "--shard zero3 is full_shard, zero2 shard_grad_op, hybrid hybrid_shard; --offload is apart"),
    NOT("fsdp_config", NULL, "its settings are options: --shard, --wrap, --prefetch, --offload, --recompute"),
    SAME("fsdp_sharding_strategy", "shard"), SWITCH("fsdp_offload_params", "offload", "params"),
    TAKE(WRAPS, "transformer_based_wrap|transformer_auto_wrap_policy", "wrap", "layer"),
    TAKE(WRAPS, "size_based_wrap|size_based_auto_wrap_policy", "wrap", "size"),
    SWITCH("transformer_auto_wrap_policy", "wrap", "layer"), SWITCH("size_based_auto_wrap_policy", "wrap", "size"),
    NOT(WRAPS, NULL, "--wrap layer gathers layer by layer, size joins them up to --wrap-min-params"),
    HELD("fsdp_transformer_layer_cls_to_wrap|transformer_layer_cls_to_wrap", NULL, "--wrap layer knows the layers"),
    SAME("fsdp_min_num_params|min_num_params", "wrap_min_params"),
    TAKE(BACKWARD_PREFETCH, "backward_pre", "prefetch", "1"),
    TAKE(BACKWARD_PREFETCH, "no_prefetch|none", "prefetch", "0"),
    NOT(BACKWARD_PREFETCH, NULL, "--prefetch 1 gathers a block ahead, as backward_pre; 0 none"),
    HELD("forward_prefetch|fsdp_forward_prefetch", NULL, "--prefetch gathers ahead in both passes; 0: in neither"),
    HELD("limit_all_gathers", "true", "the plan bounds gathered blocks: --prefetch and one more"),
    NOT("limit_all_gathers", NULL, "the plan bounds gathered blocks: --prefetch N allows N and one more"),
    ONLY("sync_module_states|fsdp_sync_module_states", "true", "ranks begin with the same weights, and compare them",
        "ranks always begin with the same weights, and compare them; see --check-replicas"),
    HELD("use_orig_params|fsdp_use_orig_params", NULL, "parameters keep their names and shapes under every --shard"),
    HELD("fsdp_cpu_ram_efficient_loading|cpu_ram_efficient_loading|zero3_init_flag", NULL, "each rank reads its share"),
    SWITCH("fsdp_activation_checkpointing", "recompute", "full"),
    TAKE("fsdp_reshard_after_forward|reshard_after_forward", "true", "reshard_after_forward", "yes"),
    TAKE("fsdp_reshard_after_forward|reshard_after_forward", "false", "reshard_after_forward", "no"),
    HELD("fsdp_state_dict_type|state_dict_type|zero3_save_16bit_model", NULL, ANY_MESH),
    HELD("fsdp_version", NULL, "--shard zero3 is the same with either version"),
    NOT("fsdp_*", NULL, "--shard zero3 is FSDP, with --wrap, --prefetch, --reshard-after-forward and --offload"),

    /* DeepSpeed */
    SAME("deepspeed_config|deepspeed_config_file", "deepspeed"),
    NOT("zero_optimization", NULL, "it is a key of a DeepSpeed configuration: --deepspeed FILE, or the key deepspeed"),
    NOT("deepspeed_*", NULL, "--deepspeed FILE reads its configuration; ZeRO is --shard, its offload --offload"),
    TAKE("zero_stage", "0", "shard", "none"), TAKE("zero_stage", "1", "shard", "zero1"),
    TAKE("zero_stage", "2", "shard", "zero2"), TAKE("zero_stage", "3", "shard", "zero3"),
    {.name = "progressive_layer_drop", .option = "layer_drop", .read = read_layer_drop},
    NOT("zero_stage", NULL, "there are the stages 0 to 3, which are --shard none, zero1, zero2 and zero3"),
    SAME("gradient_clipping|max_norm|megatron_lm_gradient_clipping", "max_grad_norm"),
    SAME("num_gpus", "nproc_per_node"),
    NOT("hostfile|include", NULL, "several machines are started by mpirun or srun: --nnodes prints the lines"),

    /* torchrun and accelerate */
    ONLY("local_rank", "-1", LAUNCHED, LAUNCHED " (LOCAL_RANK); --nproc-per-node starts them here"),
    NOT("rank", NULL, LAUNCHED " (RANK); --nproc-per-node starts them here"), HELD("use_env", NULL, LAUNCHED),
    NOT("no_python", NULL, "trident is the program itself; torchrun --no-python starts it, or --nproc-per-node here"),
    NOT("monitor_interval", NULL, "ranks are watched all the time; --progress-timeout says when one counts as hung"),
    SAME("num_machines", "nnodes"), SAME("machine_rank", "node_rank"), SAME("main_process_ip", "master_addr"),
    SAME("main_process_port", "master_port"),
    NOT("num_processes", NULL, "--nproc-per-node starts ranks on this machine; mpirun or srun on several"),
    NOT("multi_gpu", NULL, "--device cuda --nproc-per-node gpu takes all GPUs of this machine"),
    SWITCH("use_cpu|cpu|no_cuda", "device", "cpu"),

    /* Lightning */
    TAKE("accelerator", "cpu", "device", "cpu"), TAKE("accelerator", "gpu|cuda", "device", "cuda"),
    TAKE("accelerator", "auto", "device", "auto"), NOT("accelerator", NULL, "there are --device cpu, cuda and auto"),
    NOT("device", "gpu", "an NVIDIA GPU is --device cuda"), SAME("devices", "nproc_per_node"),
    SAME("num_nodes", "nnodes"), TAKE("strategy", "ddp|ddp_find_unused_parameters_false", "shard", "none"),
    TAKE("strategy", "fsdp|deepspeed_stage_3", "shard", "zero3"),
    TAKE("strategy", "deepspeed_stage_1", "shard", "zero1"), TAKE("strategy", "deepspeed_stage_2", "shard", "zero2"),
    NOT("strategy", NULL, "--shard none is DDP, zero3 is FSDP; --pp-size and --tp-size cut the model"),
    SAME("max_epochs", "epochs"), NOT("min_epochs", NULL, "a run takes all of its --epochs"),
    SAME("gradient_clip_val", "max_grad_norm"),
    HELD("gradient_clip_algorithm", "norm", "--max-grad-norm bounds the global norm"),
    NOT("gradient_clip_algorithm", NULL, "--max-grad-norm bounds the global norm; values are not clipped one by one"),
    SAME("log_every_n_steps", "log_every"), SAME("default_root_dir", "output_dir"), SAME("ckpt_path", "resume"),
    HELD("enable_checkpointing", "true", "--save-every and --save-steps say when"),
    TAKE("enable_checkpointing", "false", "save_every", "0"), TAKE("enable_progress_bar", "false", "quiet", "true"),
    HELD("enable_progress_bar", "true", "there is one unless --quiet is given"),
    HELD("deterministic", NULL, "the same build, machine and seed give the same weights to the bit"),
    ONLY("num_sanity_val_steps", "0", "nothing is validated before the first epoch ends", VALIDATED),
    HELD("check_val_every_n_epoch", "1", VALIDATED), NOT("check_val_every_n_epoch|val_check_interval", NULL, VALIDATED),
    NOT("limit_train_batches", NULL, "--max-steps ends a run early"),
    NOT("fast_dev_run", NULL, "--max-steps 1 --tiny tries a run"),
    NOT("max_time", NULL, "a signal ends a run with a checkpoint; --max-steps bounds steps"),
    NOT("profiler", NULL, "--profile wait=1,warmup=1,active=3 traces steps"),
    HELD("with_stack|record_shapes|profile_memory|with_flops|with_modules", NULL,
        "--profile names each operation with its module, shape, bytes and FLOPs; a planned step has no stack of calls"),

    /* Hugging Face */
    SAME("num_train_epochs|num_epochs", "epochs"), SAME("max_seq_length|max_seq_len|max_length", "max_sen_len"),
    SAME("model_name_or_path|pretrained_model_name_or_path", "primary_tokenizer"),
    NOT("tokenizer_name", NULL, "one folder has tokenizer and encoder: --primary-tokenizer"),
    NOT("config_name", NULL, ENCODER), SAME("num_labels", "num_classes"), SAME("train_file", "data_path"),
    NOT("validation_file|test_file", NULL, "put train, valid and test tables into one folder, --data-path"),
    NOT("dataset_name", NULL, "--data-path takes a table (CSV, TSV, JSON lines) or a folder of them"),
    TAKE("overwrite_output_dir", "true", "resume", "never"),
    HELD("overwrite_output_dir", "false", "--resume auto goes on from the run folder's last checkpoint"),
    TAKE("resume_from_checkpoint", "true", "resume", "auto"),
    TAKE("resume_from_checkpoint", "false", "resume", "never"), SAME("resume_from_checkpoint", "resume"),
    SAME("save_total_limit", "keep"), TAKE("save_strategy", "epoch", "save_every", "1"),
    TAKE("save_strategy", "no", "save_every", "0"),
    NOT("save_strategy", NULL, "--save-every counts epochs, --save-steps steps"),
    HELD("eval_strategy|evaluation_strategy", "epoch", VALIDATED),
    NOT("eval_strategy|evaluation_strategy|eval_steps", NULL, VALIDATED), SAME("logging_steps", "log_every"),
    NOT("logging_dir", NULL, "metrics.jsonl and TensorBoard's files are in the run folder: --output-dir"),
    ONLY("report_to", "tensorboard", "TensorBoard's files and metrics.jsonl are in the run folder",
        "TensorBoard's files and metrics.jsonl are in the run folder (--output-dir); log them through another tool's "
        "own client; nothing is sent anywhere"), SWITCH("disable_tqdm", "quiet", "true"),
    HELD("load_best_model_at_end", NULL, "the best checkpoint is kept in addition to the newest --keep"),
    TAKE("metric_for_best_model", "eval_loss", "best_by", "loss"),
    TAKE("metric_for_best_model", "eval_accuracy", "best_by", "accuracy"),
    TAKE("metric_for_best_model", "eval_f1", "best_by", "f1"),
    TAKE("metric_for_best_model", "eval_roc_auc", "best_by", "roc_auc"), SAME("metric_for_best_model", "best_by"),
    HELD("greater_is_better", NULL, "--best-by loss is better when it is lower, the others when they are higher"),
    SAME("early_stopping_patience", "early_stopping"),
    ONLY("early_stopping_threshold", "0", "any improvement counts", "--early-stopping counts any improvement as one"),
    SAME("num_warmup_steps", "warmup_steps"),
    TAKE("lr_scheduler_type", "constant_with_warmup", "lr_schedule", "constant"),
    SAME("lr_scheduler_type|lr_decay_style", "lr_schedule"),
    SAME("layerwise_lr_decay|layer_decay|llrd", "layer_lr_decay"), SAME("classifier_lr|head_learning_rate", "head_lr"),
    SWITCH("freeze_embeddings", "freeze", "embeddings"),
    NOT("freeze_layers", NULL, "--freeze embeddings,layers=N freezes the first N layers of each encoder"),
    TAKE("optim", "adamw_torch|adamw_torch_fused|adamw_hf", "optimizer", "adamw"), SAME("optim", "optimizer"),
    SAME("adam_epsilon", "adam_eps"), SAME("label_smoothing_factor", "label_smoothing"),
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
    SAME("tensor_model_parallel_size|tensor_parallel_size|megatron_lm_tp_degree", "tp_size"),
    SAME("pipeline_model_parallel_size|pipeline_parallel_size|megatron_lm_pp_degree", "pp_size"),
    SAME("data_parallel_size", "dp_size"), SAME("context_parallel_size", "cp_size"),
    SAME("expert_model_parallel_size|expert_parallel_size", "ep_size"),
    NOT("num_layers_per_virtual_pipeline_stage", NULL, "--virtual-stages is the layers of a rank divided by it"),
    SAME("num_virtual_stages_per_pipeline_rank", "virtual_stages"),
    TAKE("sequence_parallel|megatron_lm_sequence_parallelism", "true", "sequence_parallel", "yes"),
    TAKE("sequence_parallel|megatron_lm_sequence_parallelism", "false", "sequence_parallel", "no"),
    SWITCH("use_distributed_optimizer|megatron_lm_use_distributed_optimizer", "shard", "zero1"),
    SAME("train_iters", "max_steps"), SAME("lr_warmup_iters", "warmup_steps"),
    SAME("lr_warmup_fraction", "warmup_ratio"),
    NOT("lr_decay_iters", NULL, "the learning rate falls to 0 at the run's last step, that of --epochs or --max-steps"),
    ONLY("min_lr", "0", TO_ZERO, TO_ZERO), SAME("clip_grad", "max_grad_norm"), SAME("seq_length", "max_sen_len"),
    SAME("save", "output_dir"), SAME("load", "resume"), SAME("save_interval", "save_steps"),
    SAME("log_interval", "log_every"), NOT("eval_interval|eval_iters", NULL, VALIDATED),
    NOT("num_layers|hidden_size|num_attention_heads|hidden_dropout|attention_dropout", NULL, ENCODER),
    NOT("vocab_file", NULL, "--primary-tokenizer names the folder of a tokenizer and its encoder"),
    HELD("use_flash_attn", "true", "attention never stores its scores"),
    NOT("use_flash_attn", NULL, "attention never stores its scores; there is one implementation for each --device"),
    {0}};

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
    int truth = row ? tri__option_truth(row) : -1, is_word = row && (!strcmp(row, "true") || !strcmp(row, "false"));
    if (!row) return 1;
    if (is_word) return (value ? tri__option_truth(value) : 1) == truth;
    size_t length = value ? strlen(value) : 0;
    for (; value; row++) {
        if (strncasecmp(row, value, length) == 0 && (!row[length] || row[length] == '|')) return 1;
        row += strcspn(row, "|");
        if (!*row) break;
    }
    return 0;
}

const tri_foreign *tri__foreign_next(const tri_foreign *row, const char *name, const char *value) {
    for (; row->name; row++)
        if (is_name(row->name, name) && is_value(row->value, value)) return row;
    return NULL;
}

const tri_foreign *tri__foreign_find(const char *name, const char *value) {
    return tri__foreign_next(tri__foreign, name, value);
}

int tri__foreign_known(const tri_foreign *row, const char *name) {
    for (; row->name; row++) {
        const char *at = strstr(row->name, TRI_TEXT(TRI_FOREIGN_NAME, "%s.", name));
        if (is_name(row->name, name) || (at && (at == row->name || at[-1] == '|'))) return 1;
    }
    return 0;
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
