//! Every key of DeepSpeed's, and what becomes of it here.
//!
//! Gathered from DeepSpeed's documentation (<https://www.deepspeed.ai/docs/config-json/>), `runtime/config.py`,
//! `runtime/constants.py`, `runtime/zero/config.py` and `runtime/zero/offload_config.py`, older names included.

use serde_json::Value;

use super::asks::{
    above_one, begun, below_one, not_f32, off, on, other_device, other_optimizer, other_scheduler, positive, present,
    sparse,
};

/// One object of the file.
pub(super) struct Section {
    /// Where it is: names joined by dots, nothing for the whole file.
    pub(super) path: &'static str,
    /// Keys whose values are settings here too.
    pub(super) read: &'static [&'static str],
    /// Keys that steer DeepSpeed's own workings or what it prints: they change no result and are passed over.
    pub(super) idle: &'static [&'static str],
    /// Keys whose values can ask for what cannot be done.
    pub(super) refused: &'static [Refusal],
}

/// A key that is accepted as long as it asks for nothing.
pub(super) struct Refusal {
    pub(super) key: &'static str,
    /// Whether a value asks for something.
    pub(super) asks: fn(&Value) -> bool,
    /// What to do instead.
    pub(super) advice: &'static str,
}

const fn refuse(key: &'static str, asks: fn(&Value) -> bool, advice: &'static str) -> Refusal {
    Refusal { key, asks, advice }
}

const REMOVE: &str = "remove the key or turn it off";
const NO_NVME: &str = "state is kept in the host's memory at most: write \"cpu\"";

pub(super) const SECTIONS: &[Section] = &[
    Section {
        path: "",
        read: &[
            "train_batch_size",
            "train_micro_batch_size_per_gpu",
            "gradient_accumulation_steps",
            "gradient_clipping",
        ],
        idle: &[
            // What is printed, measured or drawn.
            "steps_per_print",
            "wall_clock_breakdown",
            "memory_breakdown",
            "dump_state",
            "timers",
            "flops_profiler",
            "comms_logger",
            "tensorboard",
            "csv_monitor",
            "wandb",
            "comet",
            // How the same numbers are moved or computed.
            "aio",
            "compile",
            "disable_allgather",
            "fp32_allreduce",
            "gradient_predivide_factor",
            "graph_harvesting",
            "prescale_gradients",
            "seq_parallel_comm_data_type",
            "seq_parallel_communication_data_type",
            "sparse_gradients",
            "use_data_before_expert_parallelism",
            "vocabulary_size",
            "zero_allow_untested_optimizer",
            "zero_force_ds_cpu_optimizer",
        ],
        refused: &[
            refuse("amp", on, "train in bfloat16 (`bf16.enabled`) or float32"),
            refuse("torch_autocast", on, "train in bfloat16 (`bf16.enabled`) or float32"),
            refuse("communication_data_type", not_f32, "gradients are reduced in float32: remove the key"),
            refuse("sparse_attention", sparse, "attention is dense: remove the section"),
            refuse("dataloader_drop_last", on, "the last, smaller batch is trained on too: remove the key"),
            refuse("curriculum_learning", on, "order the data files themselves, with --data_order sequential"),
            refuse("data_efficiency", on, REMOVE),
            refuse("progressive_layer_drop", on, REMOVE),
            refuse("eigenvalue", on, REMOVE),
            refuse("compression_training", on, REMOVE),
            refuse("quantize_training", on, REMOVE),
            refuse("weight_quantization", present, REMOVE),
            refuse("weight_quantization_config", present, REMOVE),
            refuse("autotuning", on, "choose the batch sizes yourself and remove the section"),
            refuse("elasticity", on, "restart with another number of processes and remove the section"),
            refuse("hybrid_engine", on, REMOVE),
            refuse("nebula", on, "checkpoints are plain folders: remove the section"),
            refuse("datastates_ckpt", present, "checkpoints are plain folders: remove the section"),
            refuse("expert_parallel", on, REMOVE),
            refuse("sequence_parallel_size", above_one, "only the data is split over processes: remove the key"),
        ],
    },
    Section { path: "fp16", read: &["enabled"], idle: FP16_IDLE, refused: &[] },
    Section { path: "bf16", read: &["enabled"], idle: BF16_IDLE, refused: BF16_REFUSED },
    Section { path: "bfloat16", read: &["enabled"], idle: BF16_IDLE, refused: BF16_REFUSED },
    Section {
        path: "data_types",
        read: &[],
        idle: &[],
        refused: &[refuse("grad_accum_dtype", not_f32, "gradients are added up in float32: remove the key")],
    },
    Section {
        path: "optimizer",
        read: &[],
        idle: &["legacy_fusion"],
        refused: &[refuse("type", other_optimizer, "write \"AdamW\"")],
    },
    Section {
        path: "optimizer.params",
        read: &["lr", "betas", "eps", "weight_decay"],
        idle: &[
            "torch_adam",
            "fused",
            "foreach",
            "capturable",
            "differentiable",
            "set_grad_none",
            "fp32_optimizer_states",
        ],
        refused: &[
            refuse("adam_w_mode", off, "weight decay is decoupled: remove the key"),
            refuse("bias_correction", off, "the moments' bias is always corrected: remove the key"),
            refuse("amsgrad", on, REMOVE),
            refuse("maximize", on, REMOVE),
            refuse("max_grad_norm", present, "use `gradient_clipping`"),
        ],
    },
    Section {
        path: "scheduler",
        read: &[],
        idle: &[],
        refused: &[refuse(
            "type",
            other_scheduler,
            "write \"WarmupLR\" or \"WarmupDecayLR\", or remove the section and use --lr_scheduler_type",
        )],
    },
    Section {
        path: "scheduler.params",
        read: &["warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type", "total_num_steps"],
        idle: &[],
        refused: &[refuse("last_batch_iteration", begun, "a run is resumed from its checkpoint: remove the key")],
    },
    Section {
        path: "activation_checkpointing",
        read: &[],
        idle: &["number_checkpoints", "synchronize_checkpoint_boundary", "profile"],
        refused: &[
            refuse("partition_activations", on, "use --gradient_checkpointing"),
            refuse("cpu_checkpointing", on, "use --gradient_checkpointing"),
            refuse("contiguous_memory_optimization", on, "use --gradient_checkpointing"),
        ],
    },
    Section {
        path: "pipeline",
        read: &[],
        idle: &[
            "partition",
            "seed_layers",
            "activation_checkpoint_interval",
            "pipe_partitioned",
            "grad_partitioned",
            "use_reentrant",
        ],
        refused: &[refuse("stages", above_one, "layers are not split over processes: remove the section")],
    },
    Section {
        path: "tensor_parallel",
        read: &[],
        idle: &["preset_model", "tp_overlap_comm", "tensor_parallel", "injection_policy_tuple", "partition_config"],
        refused: &[
            refuse("autotp_size", above_one, "only the data is split over processes: remove the section"),
            refuse("tp_size", above_one, "only the data is split over processes: remove the section"),
        ],
    },
    Section {
        path: "checkpoint",
        read: &[],
        idle: &["tag_validation", "use_node_local_storage", "parallel_write", "writer"],
        refused: &[refuse("load_universal", on, "DeepSpeed's checkpoints cannot be read: convert them to safetensors")],
    },
    Section {
        path: "zero_optimization",
        read: &[
            "stage",
            "overlap_comm",
            "contiguous_gradients",
            "allgather_bucket_size",
            "reduce_bucket_size",
            "sub_group_size",
            "stage3_prefetch_bucket_size",
            "stage3_param_persistence_threshold",
            "stage3_model_persistence_threshold",
            "stage3_max_live_parameters",
            "stage3_max_reuse_distance",
            "stage3_gather_16bit_weights_on_model_save",
            "stage3_gather_fp16_weights_on_model_save",
        ],
        idle: &[
            "allgather_partitions",
            "allgather_sequential",
            "ignore_unused_parameters",
            "leaf_module",
            "legacy_stage1",
            "load_from_fp32_weights",
            "log_trace_cache_warnings",
            "memory_efficient_linear",
            "override_module_apply",
            "pipeline_loading_checkpoint",
            "reduce_scatter",
            "round_robin_gradients",
            "stage3_module_granularity_threshold",
            "stage3_use_all_reduce_for_fetch_params",
            "use_multi_rank_bucket_allreduce",
        ],
        refused: &[
            refuse("cpu_offload", on, "write \"offload_optimizer\": {\"device\": \"cpu\"}"),
            refuse("cpu_offload_param", on, "write \"offload_param\": {\"device\": \"cpu\"}"),
            refuse("cpu_offload_use_pin_memory", on, "write \"pin_memory\" into the offload sections"),
            refuse("elastic_checkpoint", on, REMOVE),
            refuse("zero_hpz_partition_size", above_one, "there is one level of partitioning: remove the key"),
            refuse("zero_quantized_weights", on, REMOVE),
            refuse("zero_quantized_nontrainable_weights", on, REMOVE),
            refuse("zero_quantized_gradients", on, REMOVE),
            refuse("zeropp_loco_param", present, REMOVE),
            refuse("mics_shard_size", positive, "state is split over all processes: remove the key"),
            refuse("mics_hierarchical_params_gather", on, REMOVE),
            refuse("zenflow", present, REMOVE),
        ],
    },
    Section {
        path: "zero_optimization.offload_optimizer",
        read: &["pin_memory"],
        idle: &["nvme_path", "buffer_count", "pipeline_read", "pipeline_write", "fast_init", "cpuadam_cores_perc"],
        refused: &[
            refuse("device", other_device, NO_NVME),
            refuse("ratio", below_one, "the optimizer's state is offloaded as a whole: remove the key"),
            refuse("super_offload", on, REMOVE),
        ],
    },
    Section {
        path: "zero_optimization.offload_param",
        read: &["pin_memory"],
        idle: &["nvme_path", "buffer_count", "buffer_size", "max_in_cpu"],
        refused: &[refuse("device", other_device, NO_NVME)],
    },
];

/// Loss scaling and the like: without influence as float16 is refused.
const FP16_IDLE: &[&str] = &[
    "auto_cast",
    "loss_scale",
    "initial_scale_power",
    "loss_scale_window",
    "hysteresis",
    "consecutive_hysteresis",
    "min_loss_scale",
    "fused_mode",
    "fp16_master_weights_and_grads",
];
const BF16_IDLE: &[&str] = &["immediate_grad_update", "check_grad_overflow"];
const BF16_REFUSED: &[Refusal] = &[
    refuse("bf16_master_weights_and_grads", on, "master weights are float32: remove the key"),
    refuse("bf16_optimizer_states", on, "the optimizer's state is float32: remove the key"),
];
