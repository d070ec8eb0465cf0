//! Every key of a DeepSpeed file, and how it is treated.
//!
//! Collected from DeepSpeed's documentation (<https://www.deepspeed.ai/docs/config-json/>), `runtime/config.py`,
//! `runtime/constants.py`, `runtime/zero/config.py` and `runtime/zero/offload_config.py`, older names included.

use serde_json::{Map, Value};
use spag_io::quote;

use super::error::{LISTED, invalid, shown, unsupported};

/// One object of the file. Names are separated by spaces.
pub(super) struct Section {
    /// Its path: names joined by dots, empty for the whole file.
    pub(super) path: &'static str,
    /// Keys that are read.
    pub(super) read: &'static str,
    /// Keys without influence on the result: they configure DeepSpeed's implementation or its output.
    pub(super) idle: &'static str,
    /// Keys that are refused if they are turned on.
    pub(super) unsupported: &'static str,
    /// Keys with values that are refused.
    pub(super) refused: &'static [Refusal],
}

/// A key that is refused for some of its values.
pub(super) struct Refusal {
    pub(super) key: &'static str,
    /// Whether a value is refused.
    refuses: fn(&Value) -> bool,
    /// What to do instead.
    advice: &'static str,
}

const NONE: Section = Section { path: "", read: "", idle: "", unsupported: "", refused: &[] };

const fn refuse(key: &'static str, refuses: fn(&Value) -> bool, advice: &'static str) -> Refusal {
    Refusal { key, refuses, advice }
}

const REMOVE: &str = "remove the key or turn it off";
const NO_FP16: &str = "train in bfloat16 (`bf16.enabled`) or float32";
const NO_NVME: &str = "state can be offloaded to host memory only: write \"cpu\"";

pub(super) const SECTIONS: &[Section] = &[
    Section {
        path: "",
        read: "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps \
               gradient_clipping",
        idle: "steps_per_print wall_clock_breakdown memory_breakdown dump_state timers flops_profiler \
               comms_logger tensorboard csv_monitor wandb comet aio compile disable_allgather \
               fp32_allreduce gradient_predivide_factor graph_harvesting prescale_gradients \
               seq_parallel_comm_data_type seq_parallel_communication_data_type sparse_gradients \
               use_data_before_expert_parallelism vocabulary_size zero_allow_untested_optimizer \
               zero_force_ds_cpu_optimizer",
        unsupported: "data_efficiency progressive_layer_drop eigenvalue compression_training quantize_training \
               hybrid_engine expert_parallel",
        refused: &[
            refuse("amp", on, NO_FP16),
            refuse("torch_autocast", on, NO_FP16),
            refuse("communication_data_type", not_f32, "gradients are reduced in float32: remove the key"),
            refuse(
                "sparse_attention",
                |value| present(value) && value.get("mode").is_none_or(|mode| mode != "dense"),
                "attention is dense: remove the section",
            ),
            refuse("dataloader_drop_last", on, "the last, smaller batch is used too: remove the key"),
            refuse("curriculum_learning", on, "order the data files themselves, with --data_order sequential"),
            refuse("weight_quantization", present, REMOVE),
            refuse("weight_quantization_config", present, REMOVE),
            refuse("autotuning", on, "choose the batch sizes yourself and remove the section"),
            refuse("elasticity", on, "restart with another number of ranks and remove the section"),
            refuse("nebula", on, "checkpoints are plain folders: remove the section"),
            refuse("datastates_ckpt", present, "checkpoints are plain folders: remove the section"),
            refuse("sequence_parallel_size", above_one, "only the data is sharded over ranks: remove the key"),
        ],
    },
    Section { path: "fp16", read: "enabled", idle: FP16_IDLE, refused: &[refuse("enabled", on, NO_FP16)], ..NONE },
    Section { path: "bf16", read: "enabled", idle: BF16_IDLE, refused: BF16_REFUSED, ..NONE },
    Section { path: "bfloat16", read: "enabled", idle: BF16_IDLE, refused: BF16_REFUSED, ..NONE },
    Section {
        path: "data_types",
        refused: &[refuse("grad_accum_dtype", not_f32, "gradients are added up in float32: remove the key")],
        ..NONE
    },
    Section {
        path: "optimizer",
        idle: "legacy_fusion",
        refused: &[refuse("type", other_optimizer, "write \"AdamW\"")],
        ..NONE
    },
    Section {
        path: "optimizer.params",
        read: "lr betas eps weight_decay",
        idle: "torch_adam fused foreach capturable differentiable set_grad_none fp32_optimizer_states",
        unsupported: "amsgrad maximize",
        refused: &[
            refuse("adam_w_mode", off, "weight decay is decoupled: remove the key"),
            refuse("bias_correction", off, "the moments' bias is always corrected: remove the key"),
            refuse("max_grad_norm", present, "use `gradient_clipping`"),
        ],
    },
    Section {
        path: "scheduler",
        refused: &[refuse(
            "type",
            other_scheduler,
            "write \"WarmupLR\" or \"WarmupDecayLR\", or remove the section and use --lr_scheduler_type",
        )],
        ..NONE
    },
    Section {
        path: "scheduler.params",
        read: "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type total_num_steps",
        refused: &[refuse(
            "last_batch_iteration",
            |value| value.as_f64().is_some_and(|step| step >= 0.0),
            "a run is resumed from its checkpoint: remove the key",
        )],
        ..NONE
    },
    Section {
        path: "activation_checkpointing",
        idle: "number_checkpoints synchronize_checkpoint_boundary profile",
        refused: &[
            refuse("partition_activations", on, "use --gradient_checkpointing"),
            refuse("cpu_checkpointing", on, "use --gradient_checkpointing"),
            refuse("contiguous_memory_optimization", on, "use --gradient_checkpointing"),
        ],
        ..NONE
    },
    Section {
        path: "pipeline",
        idle: "partition seed_layers activation_checkpoint_interval pipe_partitioned grad_partitioned \
               use_reentrant",
        refused: &[refuse("stages", above_one, "layers are not distributed over ranks: remove the section")],
        ..NONE
    },
    Section {
        path: "tensor_parallel",
        idle: "preset_model tp_overlap_comm tensor_parallel injection_policy_tuple partition_config",
        refused: &[
            refuse("autotp_size", above_one, "only the data is sharded over ranks: remove the section"),
            refuse("tp_size", above_one, "only the data is sharded over ranks: remove the section"),
        ],
        ..NONE
    },
    Section {
        path: "checkpoint",
        idle: "tag_validation use_node_local_storage parallel_write writer",
        refused: &[refuse("load_universal", on, "DeepSpeed's checkpoints cannot be read: convert them to safetensors")],
        ..NONE
    },
    Section {
        path: "zero_optimization",
        read: "stage overlap_comm contiguous_gradients allgather_bucket_size reduce_bucket_size \
               sub_group_size stage3_prefetch_bucket_size stage3_param_persistence_threshold \
               stage3_model_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance \
               stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save",
        idle: "allgather_partitions allgather_sequential ignore_unused_parameters leaf_module \
               legacy_stage1 load_from_fp32_weights log_trace_cache_warnings memory_efficient_linear \
               override_module_apply pipeline_loading_checkpoint reduce_scatter round_robin_gradients \
               stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params \
               use_multi_rank_bucket_allreduce",
        unsupported: "elastic_checkpoint zero_quantized_weights zero_quantized_nontrainable_weights \
               zero_quantized_gradients mics_hierarchical_params_gather",
        refused: &[
            refuse("cpu_offload", on, "write \"offload_optimizer\": {\"device\": \"cpu\"}"),
            refuse("cpu_offload_param", on, "write \"offload_param\": {\"device\": \"cpu\"}"),
            refuse("cpu_offload_use_pin_memory", on, "write \"pin_memory\" into the offload sections"),
            refuse("zero_hpz_partition_size", above_one, "state is sharded over all ranks: remove the key"),
            refuse("zeropp_loco_param", present, REMOVE),
            refuse(
                "mics_shard_size",
                |value| value.as_f64().is_some_and(|size| size > 0.0),
                "state is sharded over all ranks: remove the key",
            ),
            refuse("zenflow", present, REMOVE),
        ],
    },
    Section {
        path: "zero_optimization.offload_optimizer",
        read: "pin_memory",
        idle: "nvme_path buffer_count pipeline_read pipeline_write fast_init cpuadam_cores_perc",
        unsupported: "super_offload",
        refused: &[
            refuse("device", other_device, NO_NVME),
            refuse(
                "ratio",
                |value| value.as_f64().is_some_and(|ratio| ratio < 1.0),
                "the optimizer's state is offloaded as a whole: remove the key",
            ),
        ],
    },
    Section {
        path: "zero_optimization.offload_param",
        read: "pin_memory",
        idle: "nvme_path buffer_count buffer_size max_in_cpu",
        refused: &[refuse("device", other_device, NO_NVME)],
        ..NONE
    },
];

/// Loss scaling and the like, without effect because float16 is refused.
const FP16_IDLE: &str = "auto_cast loss_scale initial_scale_power loss_scale_window hysteresis consecutive_hysteresis \
                         min_loss_scale fused_mode fp16_master_weights_and_grads";
const BF16_IDLE: &str = "immediate_grad_update check_grad_overflow";
const BF16_REFUSED: &[Refusal] = &[
    refuse("bf16_master_weights_and_grads", on, "master weights are float32: remove the key"),
    refuse("bf16_optimizer_states", on, "the optimizer state is float32: remove the key"),
];

/// Turned on: true, `enabled`, or (in compression's sections) `enabled` in a nested object.
fn on(value: &Value) -> bool {
    match value {
        Value::Object(object) => match object.get("enabled") {
            Some(enabled) => on(enabled),
            None => object.values().any(|inner| inner.is_object() && on(inner)),
        },
        other => present(other),
    }
}

/// True in Python, except `"auto"`.
fn present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && text != "auto",
        Value::Array(items) => !items.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

fn off(value: &Value) -> bool {
    *value == false
}

fn above_one(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 1.0)
}

fn not_f32(value: &Value) -> bool {
    present(value) && value != "fp32"
}

fn other_device(value: &Value) -> bool {
    value == "nvme" || value == "hpu"
}

/// DeepSpeed ignores the case of an optimizer's name, and its `Adam` has AdamW's weight decay.
fn other_optimizer(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !["adam", "adamw"].contains(&name.to_lowercase().as_str()))
}

fn other_scheduler(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !["WarmupLR", "WarmupDecayLR"].contains(&name))
}

impl Section {
    /// The names of keys, without those of nested sections.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> {
        let listed = [self.read, self.idle, self.unsupported].into_iter().flat_map(str::split_whitespace);
        listed.chain(self.refused.iter().map(|refusal| refusal.key))
    }

    /// All names, with those of nested sections.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let path = self.path;
        let nested = SECTIONS.iter().filter_map(move |other| {
            let (parent, name) = other.path.rsplit_once('.').unwrap_or(("", other.path));
            (parent == path && !name.is_empty()).then_some(name)
        });
        self.keys().chain(nested)
    }

    /// The nested section `name`. A name with a dot in it is not a path.
    fn nested(&self, name: &str) -> Option<&'static Section> {
        if name.is_empty() || name.contains('.') { None } else { section(&join(self.path, name)) }
    }

    /// The advice against a value of a key, if it is refused.
    fn refusal(&self, name: &str, value: &Value) -> Option<&'static str> {
        if lists(self.unsupported, name) && on(value) {
            return Some(REMOVE);
        }
        let refusal = self.refused.iter().find(|refusal| refusal.key == name)?;
        (refusal.refuses)(value).then_some(refusal.advice)
    }
}

/// All problems with the keys of `root` that do not depend on other keys.
pub(super) fn check(root: &Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(top) = section("") {
        check_section(top, root, &mut problems);
    }
    problems
}

fn check_section(section: &Section, object: &Map<String, Value>, problems: &mut Vec<String>) {
    let mut nested = Vec::new();
    let mut type_refused = false;
    for (name, value) in object {
        let key = join(section.path, name);
        if let Some(advice) = section.refusal(name, value) {
            type_refused |= name == "type";
            problems.push(format!("{}{} is not supported; {advice}", unsupported(&key), shown(value)));
        } else if let Some(below) = section.nested(name) {
            match value {
                Value::Object(object) => nested.push((below, object)),
                Value::Null => {}
                other => problems.push(invalid(&key, "an object", other)),
            }
        } else if section.keys().all(|known| known != name) {
            // Searched for those that are listed only: a file may have millions of keys.
            let nearest = if problems.len() < LISTED { nearest(section, name) } else { None };
            let hint = match nearest {
                Some(name) => format!("; did you mean `{name}`?"),
                None => " to DeepSpeed or not known here; remove it if nothing depends on it".to_owned(),
            };
            problems.push(format!("`{}` is unknown{hint}", quote(&key)));
        }
    }
    // The parameters of a refused optimizer or scheduler are not reported as well.
    if !type_refused {
        for (section, object) in nested {
            check_section(section, object, problems);
        }
    }
}

/// The only section that knows the name, or the most similar name of this section.
fn nearest(here: &Section, name: &str) -> Option<String> {
    let similar = spag_io::nearest_name(name, here.names()).map(|known| join(here.path, known));
    let mut elsewhere = SECTIONS
        .iter()
        .filter(|section| section.names().any(|known| known == name))
        .map(|section| join(section.path, name));
    match (elsewhere.next(), elsewhere.next()) {
        (Some(only), None) => Some(only),
        _ => similar,
    }
}

fn section(path: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.path == path)
}

fn lists(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
