//! Keys of a DeepSpeed file that would change the result and cannot be honoured.
//!
//! Collected from DeepSpeed's documentation (<https://www.deepspeed.ai/docs/config-json/>), `runtime/config.py`,
//! `runtime/constants.py`, `runtime/zero/config.py` and `runtime/zero/offload_config.py`, older names included.

use serde_json::Value;

use super::error::{shown, unsupported};
use super::read::Reader;

/// Keys that are refused for some of their values.
struct Refusal {
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

const REMOVE: &str = "remove the key or turn it off";
const RECOMPUTE: &str = "use --gradient_checkpointing";
const PLAIN_FOLDERS: &str = "checkpoints are plain folders: remove the section";
const SHARDED: &str = "remove the key, and use --shard_within host to shard within hosts";

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
    refuse(is_f16, "gradients are reduced in float32 or bfloat16: write \"auto\"", "communication_data_type"),
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

fn is_f16(value: &Value) -> bool {
    value == "fp16"
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

/// Reports features that this program does not have.
pub(super) fn refuse_unsupported(reader: &mut Reader<'_>) {
    for Refusal { refuses, advice, keys } in REFUSED {
        for key in keys.split_whitespace() {
            // The parameters of a refused optimizer or scheduler are not reported as well.
            let type_is_refused = key.split_once(".params").is_some_and(|(section, _)| reader.type_is_refused(section));
            if let Some(value) = reader.find(key).filter(|value| refuses(value) && !type_is_refused) {
                reader.problems.push(format!("{}{} is not supported; {advice}", unsupported(key), shown(value)));
            }
        }
    }
}
