/* foreign_files.c - the keys of other programs' files: DeepSpeed's configuration, Accelerate's, and TrainingArguments
 * of Hugging Face. What is not here is looked up in foreign.c by the name after the last point (foreign_read.c). */
#include "settings/foreign_rows.h"

#define Z "zero_optimization."
#define ADAM "optimizer.params."
#define RATE "scheduler.params."
#define ACTIVATIONS "activation_checkpointing."
#define FSDP "fsdp_config."
#define BOUNDED "the plan bounds and orders transfers: --prefetch, --bucket-mb, --wrap"

const char tri__foreign_file[] = "this file";

const tri_foreign tri__deepspeed_rows[] = {
    SAME("steps_per_print", "log_every"),
    HELD("wall_clock_breakdown|memory_breakdown|comms_logger|flops_profiler|csv_monitor", NULL,
        "metrics.jsonl has each step's time, shares, memory and FLOPs, --profile each operation's"),
    HELD("tensorboard", NULL, FIGURES), HELD("dump_state", NULL, "the run folder records all settings"),
    QUIET("prescale_gradients|sparse_gradients|disable_allgather|use_data_before_expert_parallelism|"
          "optimizer.legacy_fusion|pipeline.seed_layers|" ADAM "amsgrad|" Z "cpu_offload|" Z
          "cpu_offload_params|" Z "mics_hierarchical_params_gather|fp16.fp16_master_weights_and_grads", "false"),
    QUIET("gradient_predivide_factor|sequence_parallel_size|" Z "zero_hpz_partition_size|" Z
          "offload_optimizer.ratio|" Z "offload_param.ratio", "1"),
    QUIET("fp16.loss_scale|tensor_parallel.autotp_size|pipeline.activation_checkpoint_interval|" RATE
          "warmup_min_lr|" RATE "warmup_min_ratio|" RATE "cos_min_ratio", "0"),
    QUIET(RATE "last_batch_iteration|" Z "mics_shard_size", "-1"), QUIET(RATE "warmup_type", "linear"),
    QUIET("fp16.auto_cast", NULL), QUIET(ADAM "bias_correction|" ADAM "adam_w_mode", "true"),
    NOT("prescale_gradients|gradient_predivide_factor", NULL, "--reduce-dtype fp32 sums do not overflow"),
    SAME("communication_data_type|data_types.grad_accum_dtype", "reduce_dtype"),
    HELD("zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer", NULL, "every --optimizer has its own plan"),

    SWITCH("fp16.enabled", "precision", "fp16"), SWITCH("bf16.enabled|bfloat16.enabled", "precision", "bf16"),
    SWITCH("torch_autocast.enabled", "precision", "bf16"), SAME("torch_autocast.dtype", "precision"),
    HELD("fp16.initial_scale_power|fp16.loss_scale_window|fp16.hysteresis|fp16.min_loss_scale|"
         "fp16.consecutive_hysteresis", NULL,
        "the loss scale begins at 65536, is halved when gradients overflow and doubled after 2000 steps without"),
    NOT("fp16.loss_scale", NULL, LOSS_SCALE),
    HELD("bf16.immediate_grad_update|bf16.check_grad_overflow", NULL, "gradients are added as the plan says"),
    NOT("fp16.fp16_master_weights_and_grads|bf16.bf16_master_weights_and_grads|bf16.bf16_optimizer_states", NULL,
        "weights and optimizer state are kept in fp32; --precision computes in 16 bits with them"),
    NOT("amp", NULL, "--precision fp16 or bf16 is its mixed precision"),

    TAKE("optimizer.type", "Adam|FusedAdam|CPUAdam|DeepSpeedCPUAdam", "optimizer", "adamw"),
    SAME("optimizer.type", "optimizer"), REFINE(ADAM "adam_w_mode", "false", "optimizer", "adam"),
    SAME(RATE "warmup_max_lr", "lr"), SAME(ADAM "betas.0", "adam_beta1"), SAME(ADAM "betas.1", "adam_beta2"),
    SAME(ADAM "eps", "adam_eps"),
    HELD(ADAM "torch_adam|" ADAM "fused|" ADAM "foreach|" ADAM "cuda_aware|" ADAM "comm_backend_name", NULL,
        "there is one implementation for each --device"),
    NOT(ADAM "max_coeff|" ADAM "min_coeff|" ADAM "coeff_beta|" ADAM "factor_max|" ADAM "factor_min|" ADAM
        "factor_threshold", NULL, "LAMB's ratios have no bounds of their own"),

    TAKE("scheduler.type", "WarmupLR", "lr_schedule", "constant"),
    TAKE("scheduler.type", "WarmupDecayLR", "lr_schedule", "linear"),
    TAKE("scheduler.type", "WarmupCosineLR", "lr_schedule", "cosine"), NOT("scheduler.type", NULL, SCHEDULE),
    {.name = RATE "warmup_num_steps", .option = "warmup_steps", .words = "in a line"},
    SAME(RATE "total_num_steps", "max_steps"),
    NOT(RATE "*", NULL, SCHEDULE "; it rises from 0 in a line and falls to 0 at the run's last step"),

    TAKE(Z "stage", "0", "shard", "none"), TAKE(Z "stage", "1", "shard", "zero1"),
    TAKE(Z "stage", "2", "shard", "zero2"), TAKE(Z "stage", "3", "shard", "zero3"),
    NOT(Z "stage", NULL, "there are the stages 0 to 3, which are --shard none, zero1, zero2 and zero3"),
    QUIET(Z "offload_optimizer.device|" Z "offload_param.device", "none"),
    TAKE(Z "offload_optimizer.device", "cpu", "offload", "optimizer"),
    TAKE(Z "offload_param.device", "cpu", "offload", "params"), TAKE(Z "cpu_offload", "true", "offload", "optimizer"),
    TAKE(Z "cpu_offload_params", "true", "offload", "params"),
    NOT(Z "offload_optimizer.device|" Z "offload_param.device", NULL, OFFLOADED ": give the device cpu"),
    NOT(Z "offload_optimizer.ratio|" Z "offload_param.ratio", NULL, "what --offload names is offloaded whole"),
    HELD(Z "offload_optimizer.*|" Z "offload_param.*|" Z "cpu_offload_use_pin_memory|aio", NULL, OFFLOADED),
    {.name = Z "reduce_bucket_size", .option = "bucket_mb", .scale = 4e-6, .words = "elements of 4 bytes"},
    {.name = Z "zero_hpz_partition_size|" Z "mics_shard_size", .option = "shard", .to = "hybrid", .more = 1,
     .refines = 1},
    {.name = Z "zero_hpz_partition_size|" Z "mics_shard_size", .option = "shard_size",
     .words = "what these replicas hold together is also the optimizer's state"},
    SWITCH(Z "zero_quantized_weights", "compress_weights", "int8"),
    SWITCH(Z "zero_quantized_gradients", "compress_gradients", "int4"),
    HELD(Z "stage3_gather_16bit_weights_on_model_save|" Z "stage3_gather_fp16_weights_on_model_save|" Z
         "elastic_checkpoint|" Z "load_from_fp32_weights|" Z "pipeline_loading_checkpoint", NULL, ANY_MESH),
    HELD(Z "overlap_comm|" Z "contiguous_gradients|" Z "reduce_scatter|" Z "allgather_partitions|" Z
         "allgather_bucket_size|" Z "round_robin_gradients|" Z "ignore_unused_parameters|" Z "sub_group_size|" Z
         "stage3_*|" Z "use_all_reduce_for_fetch_params|" Z "memory_efficient_linear|" Z "override_module_apply|" Z
         "log_trace_cache_warnings|" Z "legacy_stage1", NULL, BOUNDED),

    TAKE(ACTIVATIONS "cpu_checkpointing", "true", "offload", "activations"),
    NOT(ACTIVATIONS "partition_activations", "true", "--tp-size with --sequence-parallel shards activations"),
    HELD(ACTIVATIONS "*", NULL, "a step's memory is planned; --recompute says which activations are computed again"),
    TAKE("pipeline.activation_checkpoint_interval", NULL, "recompute", "full"), SAME("pipeline.stages", "pp_size"),
    HELD("pipeline.partition|pipeline.pipe_partitioned|pipeline.grad_partitioned", NULL, "--stages lists them"),
    SAME("tensor_parallel.autotp_size", "tp_size"), ALSO("sequence_parallel_size", NULL, "cp_mode", "heads"),
    SAME("sequence_parallel_size", "cp_size"), HELD("checkpoint", NULL, ANY_MESH),
    {.name = "sparse_attention", .option = "attention", .to = tri__foreign_file},
    NOT("compression_training", NULL, "--quantize trains with quantised weights; trident quantize writes int8 ones"),
    NOT("autotuning", NULL, "trident choose finds the fastest layout that fits"),
    NOT("elasticity", NULL, "--elastic goes on with fewer ranks and the same samples in each step"),
    NOT("data_efficiency|curriculum_learning|eigenvalue", NULL, "every epoch has all rows; --layer-drop drops layers"),
    NOT("wandb|comet|nebula", NULL, FIGURES "; nothing is sent anywhere"), NOT("hybrid_engine|compile", NULL, PLANNED),
    {0}};

const tri_foreign tri__accelerate_rows[] = {
    QUIET("compute_environment", "LOCAL_MACHINE"),
    NOT("compute_environment", NULL, "ranks are started here, by --nproc-per-node, or by mpirun and srun"),
    QUIET("main_training_function|same_network", NULL),
    QUIET("distributed_type|dynamo_backend|dynamo_config.dynamo_backend", "NO|false"),
    QUIET("debug|downcast_bf16|tpu_*|use_cpu|enable_cpu_affinity|ipex_config.*", "false"),
    QUIET("gpu_ids", "all"), QUIET("num_machines", "1"), QUIET("machine_rank", "0"), QUIET("rdzv_backend", "static"),
    TAKE("distributed_type", "MULTI_CPU", "device", "cpu"), ALSO("distributed_type", "FSDP", "shard", "zero3"),
    TAKE("distributed_type", "MULTI_GPU|FSDP|DEEPSPEED|MEGATRON_LM|TP", "device", "cuda"),
    NOT("distributed_type|tpu_*|downcast_bf16|ipex_config.*", NULL, "there are --device cpu and cuda"),
    REFINE("use_cpu", "true", "device", "cpu"), SAME("num_processes", "world_size"),
    NOT("gpu_ids", NULL, "CUDA_VISIBLE_DEVICES says which GPUs ranks see"),
    TAKE("enable_cpu_affinity", "true", "bind_cores", "core"),
    NOT("dynamo_backend|dynamo_config.dynamo_backend", NULL, PLANNED), QUIET("dynamo_config.*", NULL),
    NOT("mpirun_config", NULL, "several machines are started by mpirun or srun: --nnodes prints the lines"),
    SAME("parallelism_config.parallelism_config_tp_size", "tp_size"),
    SAME("parallelism_config.parallelism_config_cp_size", "cp_size"), QUIET("parallelism_config.*", "1"),
    NOT("parallelism_config.*", NULL, "--shard zero3 is over all replicas, hybrid over --shard-size of them"),
    REFINE(FSDP "fsdp_sharding_strategy", NULL, "shard", NULL),
    HELD("deepspeed_config.offload_optimizer_nvme_path|deepspeed_config.offload_param_nvme_path", NULL, OFFLOADED),
    NOT("deepspeed_config.deepspeed_multinode_launcher|deepspeed_config.deepspeed_hostfile", NULL,
        "several machines are started by mpirun or srun: --nnodes prints the lines"),

    HELD("fp8_config.backend", "TE", "--precision fp8 is TransformerEngine's recipe"), {0}};

const tri_foreign tri__arguments_rows[] = {
    /* What a dump has where nobody asked for it. */
    QUIET("do_train|do_eval|do_predict|overwrite_output_dir|prediction_loss_only|logging_first_step|save_only_model|"
          "save_on_each_node|no_cuda|use_cpu|use_mps_device|use_ipex|use_legacy_prediction_loop|jit_mode_eval|"
          "bf16_full_eval|fp16_full_eval|tpu_metrics_debug|debug|dataloader_drop_last|dataloader_persistent_workers|"
          "disable_tqdm|load_best_model_at_end|ignore_data_skip|adafactor|group_by_length|push_to_hub|"
          "full_determinism|auto_find_batch_size|torch_compile|include_inputs_for_metrics|include_tokens_per_second|"
          "include_num_input_tokens_seen|batch_eval_metrics|eval_do_concat_batches|eval_on_start|"
          "eval_use_gather_object|use_liger_kernel|average_tokens_across_devices|split_batches|tf32|"
          "restore_callback_states_from_checkpoint|fp16|bf16|gradient_checkpointing|fsdp_config.xla*|"
          "skip_memory_metrics|ddp_find_unused_parameters|ddp_broadcast_buffers|eval_accumulation_steps|"
          "torch_empty_cache_steps|tpu_num_cores|torchdynamo|label_names|dataloader_prefetch_factor|"
          "neftune_noise_alpha|optim_target_modules|liger_kernel_config|parallelism_config|accelerator_config.*",
          "false"),
    QUIET("logging_nan_inf_filter|save_safetensors|log_on_each_node|dataloader_pin_memory|remove_unused_columns|"
          "skip_memory_metrics|eval_do_concat_batches|do_train|do_eval|average_tokens_across_devices|"
          "accelerator_config.even_batches|accelerator_config.use_seedable_sampler|accelerator_config.non_blocking",
          "true"),
    QUIET("eval_delay|fsdp_min_num_params|fsdp_config.min_num_params|local_rank|dataloader_num_workers|warmup_ratio|"
          "label_smoothing_factor", "0"),
    QUIET("max_steps|past_index|local_rank", "-1"), QUIET("logging_strategy", "steps"),
    QUIET("log_level|log_level_replica|hub_*|push_to_hub_*|project|_n_gpu|trackio_*|"
          "length_column_name|ray_scope|half_precision_backend|fp16_backend|torch_compile_backend|torch_compile_mode|"
          "gradient_checkpointing_kwargs.*", NULL),
    HELD("run_name|logging_dir", NULL, FIGURES ": --output-dir"), QUIET("train_sampling_strategy", "random"),
    QUIET("optim_args|debug|mp_parameters|fsdp|report_to|include_for_metrics", ""), QUIET("fp16_opt_level", "O1"),
    QUIET("report_to", "none|all"), QUIET("ddp_timeout", "1800"),
    HELD("per_device_eval_batch_size|per_gpu_eval_batch_size", NULL, "validation takes batches of --batch-size"),
    HELD("eval_strategy|evaluation_strategy", "no", VALIDATED), TAKE("save_strategy", "steps", "save_every", "0"),
    NOT("lr_scheduler_kwargs.*", NULL, SCHEDULE ", the latter to the power of --lr-power"),
    ALSO("fsdp", "full_shard offload|full_shard auto_wrap offload|full_shard offload auto_wrap", "offload", "params"),
    TAKE("fsdp", "full_shard offload|full_shard auto_wrap offload|full_shard offload auto_wrap", "shard", "zero3"),
    QUIET(FSDP "version", NULL), SAME("deepspeed", "deepspeed"), {0}};
