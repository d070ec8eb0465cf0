//! Every key of a DeepSpeed file, and how it is treated.
//!
//! Collected from DeepSpeed's documentation (<https://www.deepspeed.ai/docs/config-json/>), `runtime/config.py`,
//! `runtime/constants.py`, `runtime/zero/config.py` and `runtime/zero/offload_config.py`, older names included.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use spag_io::quote;

use super::error::{LISTED, invalid, shown, unsupported};

/// Keys that are refused for some of their values.
pub(super) struct Refusal {
    /// Whether a value is refused.
    refuses: fn(&Value) -> bool,
    /// What to do instead.
    advice: &'static str,
    /// Keys by their paths, separated by blanks.
    keys: &'static str,
}

const fn refuse(refuses: fn(&Value) -> bool, advice: &'static str, keys: &'static str) -> Refusal {
    Refusal { refuses, advice, keys }
}

/// The objects of a file by their paths, the whole file first, with the names of keys that are accepted: those that are read,
/// and those that configure DeepSpeed's implementation or its output without influence on the result.
const SECTIONS: &[(&str, &str)] = &[
    (
        "",
        "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping \
         steps_per_print wall_clock_breakdown memory_breakdown dump_state timers flops_profiler comms_logger tensorboard \
         csv_monitor wandb comet aio compile disable_allgather fp32_allreduce gradient_predivide_factor \
         graph_harvesting prescale_gradients seq_parallel_comm_data_type seq_parallel_communication_data_type \
         sparse_gradients use_data_before_expert_parallelism vocabulary_size zero_allow_untested_optimizer \
         zero_force_ds_cpu_optimizer",
    ),
    (
        "fp16",
        "auto_cast loss_scale initial_scale_power loss_scale_window hysteresis consecutive_hysteresis min_loss_scale \
         fused_mode fp16_master_weights_and_grads",
    ),
    ("bf16", "enabled immediate_grad_update check_grad_overflow"),
    ("bfloat16", "enabled immediate_grad_update check_grad_overflow"),
    ("data_types", ""),
    ("optimizer", "legacy_fusion"),
    (
        "optimizer.params",
        "lr betas eps weight_decay torch_adam fused foreach capturable differentiable set_grad_none \
         fp32_optimizer_states",
    ),
    ("scheduler", ""),
    ("scheduler.params", "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type total_num_steps"),
    ("activation_checkpointing", "number_checkpoints synchronize_checkpoint_boundary profile"),
    (
        "pipeline",
        "partition seed_layers activation_checkpoint_interval pipe_partitioned grad_partitioned use_reentrant",
    ),
    ("tensor_parallel", "preset_model tp_overlap_comm tensor_parallel injection_policy_tuple partition_config"),
    ("checkpoint", "tag_validation use_node_local_storage parallel_write writer"),
    (
        "zero_optimization",
        "stage overlap_comm contiguous_gradients allgather_bucket_size reduce_bucket_size sub_group_size \
         stage3_prefetch_bucket_size stage3_param_persistence_threshold stage3_model_persistence_threshold \
         stage3_max_live_parameters stage3_max_reuse_distance stage3_gather_16bit_weights_on_model_save \
         stage3_gather_fp16_weights_on_model_save allgather_partitions allgather_sequential ignore_unused_parameters \
         leaf_module legacy_stage1 load_from_fp32_weights log_trace_cache_warnings memory_efficient_linear \
         override_module_apply pipeline_loading_checkpoint reduce_scatter round_robin_gradients \
         stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params use_multi_rank_bucket_allreduce",
    ),
    (
        "zero_optimization.offload_optimizer",
        "pin_memory nvme_path buffer_count pipeline_read pipeline_write fast_init cpuadam_cores_perc convert_grad_on_cpu",
    ),
    ("zero_optimization.offload_param", "pin_memory nvme_path buffer_count buffer_size max_in_cpu"),
];

const REMOVE: &str = "remove the key or turn it off";
const RECOMPUTE: &str = "use --gradient_checkpointing";
const PLAIN_FOLDERS: &str = "checkpoints are plain folders: remove the section";
const SHARDED: &str = "state is sharded over all ranks: remove the key";

/// Features that this program does not have. The scaling of losses needs no entry, because float16 is refused.
const REFUSED: &[Refusal] = &[
    refuse(
        on,
        REMOVE,
        "data_efficiency progressive_layer_drop eigenvalue compression_training quantize_training hybrid_engine \
         expert_parallel optimizer.params.amsgrad optimizer.params.maximize zero_optimization.elastic_checkpoint \
         zero_optimization.zero_quantized_weights zero_optimization.zero_quantized_nontrainable_weights \
         zero_optimization.zero_quantized_gradients zero_optimization.mics_hierarchical_params_gather \
         zero_optimization.offload_optimizer.super_offload",
    ),
    refuse(
        present,
        REMOVE,
        "weight_quantization weight_quantization_config zero_optimization.zeropp_loco_param zero_optimization.zenflow",
    ),
    refuse(on, "train in bfloat16 (`bf16.enabled`) or float32", "amp torch_autocast fp16.enabled"),
    refuse(not_f32, "gradients are reduced in float32: remove the key", "communication_data_type"),
    refuse(not_f32, "gradients are added up in float32: remove the key", "data_types.grad_accum_dtype"),
    refuse(not_dense, "attention is dense: remove the section", "sparse_attention"),
    refuse(on, "the last, smaller batch is used too: remove the key", "dataloader_drop_last"),
    refuse(on, "order the data files themselves, with --data_order sequential", "curriculum_learning"),
    refuse(on, "choose the batch sizes yourself and remove the section", "autotuning"),
    refuse(on, "restart with another number of ranks and remove the section", "elasticity"),
    refuse(on, PLAIN_FOLDERS, "nebula"),
    refuse(present, PLAIN_FOLDERS, "datastates_ckpt"),
    refuse(above_one, "only the data is sharded over ranks: remove the key", "sequence_parallel_size"),
    refuse(
        on,
        "master weights are float32: remove the key",
        "bf16.bf16_master_weights_and_grads bfloat16.bf16_master_weights_and_grads",
    ),
    refuse(
        on,
        "the optimizer state is float32: remove the key",
        "bf16.bf16_optimizer_states bfloat16.bf16_optimizer_states",
    ),
    refuse(other_optimizer, "write \"AdamW\"", "optimizer.type"),
    refuse(off, "weight decay is decoupled: remove the key", "optimizer.params.adam_w_mode"),
    refuse(off, "the moments' bias is always corrected: remove the key", "optimizer.params.bias_correction"),
    refuse(present, "use `gradient_clipping`", "optimizer.params.max_grad_norm"),
    refuse(
        |value| value.as_str().is_some_and(|name| !["WarmupLR", "WarmupDecayLR"].contains(&name)),
        "write \"WarmupLR\" or \"WarmupDecayLR\", or remove the section and use --lr_scheduler_type",
        "scheduler.type",
    ),
    refuse(
        |value| value.as_f64().is_some_and(|step| step >= 0.0),
        "a run is resumed from its checkpoint: remove the key",
        "scheduler.params.last_batch_iteration",
    ),
    refuse(
        on,
        RECOMPUTE,
        "activation_checkpointing.partition_activations activation_checkpointing.cpu_checkpointing \
         activation_checkpointing.contiguous_memory_optimization",
    ),
    refuse(above_one, "layers are not distributed over ranks: remove the section", "pipeline.stages"),
    refuse(
        above_one,
        "only the data is sharded over ranks: remove the section",
        "tensor_parallel.autotp_size tensor_parallel.tp_size",
    ),
    refuse(on, "DeepSpeed's checkpoints cannot be read: convert them to safetensors", "checkpoint.load_universal"),
    refuse(on, "write \"offload_optimizer\": {\"device\": \"cpu\"}", "zero_optimization.cpu_offload"),
    refuse(on, "write \"offload_param\": {\"device\": \"cpu\"}", "zero_optimization.cpu_offload_param"),
    refuse(on, "write \"pin_memory\" into the offload sections", "zero_optimization.cpu_offload_use_pin_memory"),
    refuse(above_one, SHARDED, "zero_optimization.zero_hpz_partition_size"),
    refuse(above_zero, SHARDED, "zero_optimization.mics_shard_size"),
    refuse(
        |value| value == "nvme" || value == "hpu",
        "state can be offloaded to host memory only: write \"cpu\"",
        "zero_optimization.offload_optimizer.device zero_optimization.offload_param.device",
    ),
    refuse(
        |value| value.as_f64().is_some_and(|ratio| ratio < 1.0),
        "the optimizer's state is offloaded as a whole: remove the key",
        "zero_optimization.offload_optimizer.ratio",
    ),
];

/// All known keys by their paths, with their refusals.
pub(super) fn known() -> BTreeMap<String, Option<&'static Refusal>> {
    let mut known = BTreeMap::new();
    for (path, names) in SECTIONS {
        if !path.is_empty() {
            known.insert((*path).to_owned(), None);
        }
        known.extend(names.split_whitespace().map(|name| (join(path, name), None)));
    }
    for refusal in REFUSED {
        known.extend(refusal.keys.split_whitespace().map(|key| (key.to_owned(), Some(refusal))));
    }
    known
}

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

/// DeepSpeed ignores the case of an optimizer's name, and its `Adam` has AdamW's weight decay.
fn other_optimizer(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !["adam", "adamw"].contains(&name.to_lowercase().as_str()))
}

fn not_dense(value: &Value) -> bool {
    present(value) && value.get("mode").is_none_or(|mode| mode != "dense")
}

fn above_zero(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

/// All problems with the keys of `root` that do not depend on other keys.
pub(super) fn check(root: &Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    check_section("", root, &known(), &mut problems);
    problems
}

fn check_section(
    path: &str,
    object: &Map<String, Value>,
    known: &BTreeMap<String, Option<&'static Refusal>>,
    problems: &mut Vec<String>,
) {
    let mut nested = Vec::new();
    let mut type_refused = false;
    for (name, value) in object {
        let key = join(path, name);
        // A name with a dot in it is not a path.
        match known.get(&key).filter(|_| !name.contains('.')) {
            Some(Some(refusal)) if (refusal.refuses)(value) => {
                type_refused |= name == "type";
                problems.push(format!("{}{} is not supported; {}", unsupported(&key), shown(value), refusal.advice));
            }
            Some(_) if SECTIONS.iter().any(|(section, _)| *section == key) => match value {
                Value::Object(object) => nested.push((key, object)),
                Value::Null => {}
                other => problems.push(invalid(&key, "an object", other)),
            },
            Some(_) => {}
            None => {
                // Searched for those that are listed only: a file may have millions of keys.
                let nearest = if problems.len() < LISTED { nearest(known, path, name) } else { None };
                let hint = match nearest {
                    Some(name) => format!("; did you mean `{name}`?"),
                    None => " to DeepSpeed or not known here; remove it if nothing depends on it".to_owned(),
                };
                problems.push(format!("`{}` is unknown{hint}", quote(&key)));
            }
        }
    }
    // The parameters of a refused optimizer or scheduler are not reported as well.
    if !type_refused {
        for (path, object) in nested {
            check_section(&path, object, known, problems);
        }
    }
}

/// The only key of this name, or the most similar name of this section.
fn nearest(known: &BTreeMap<String, Option<&'static Refusal>>, path: &str, name: &str) -> Option<String> {
    let all = || known.keys().map(|key| key.rsplit_once('.').unwrap_or(("", key)));
    let mut elsewhere = all().filter(|(_, other)| *other == name);
    match (elsewhere.next(), elsewhere.next()) {
        (Some((path, name)), None) => Some(join(path, name)),
        _ => {
            let here = all().filter(|(section, _)| *section == path).map(|(_, name)| name);
            spag_io::nearest_name(name, here).map(|name| join(path, name))
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
