//! The settings with `"auto"` filled in. Written as JSON, they are a valid DeepSpeed file.

use serde::Serialize;

use super::Scheduler;
use crate::config::{Placement, ShardingPlan, ZeroStage};

/// The resolved settings of a DeepSpeed file: numbers instead of `"auto"`, DeepSpeed's defaults for absent keys.
///
/// Settings that repeat a flag always equal the flag.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeepSpeed {
    /// Samples of an optimizer step: micro-batch × accumulation × processes.
    pub(crate) train_batch_size: u64,
    /// Samples of a micro-batch.
    pub(crate) train_micro_batch_size_per_gpu: u64,
    /// Micro-batches of an optimizer step.
    pub(crate) gradient_accumulation_steps: u64,
    /// Gradients are scaled down to this global norm; 0 leaves them.
    pub(crate) gradient_clipping: f64,
    /// bfloat16 training.
    pub(crate) bf16: Switch,
    /// float16 training: always off.
    pub(crate) fp16: Switch,
    /// The optimizer.
    pub(crate) optimizer: Optimizer,
    /// A schedule of DeepSpeed, which replaces `--lr_scheduler_type`, as in transformers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheduler: Option<Scheduler>,
    /// Sharding and offloads.
    pub(crate) zero_optimization: Zero,
}

impl DeepSpeed {
    /// Sharding and offloads of the file.
    pub fn sharding_plan(&self) -> ShardingPlan {
        let Zero { stage, offload_optimizer, offload_param, .. } = &self.zero_optimization;
        ShardingPlan { stage: *stage, optimizer: offload_optimizer.device, parameters: offload_param.device }
    }

    /// The name of the file's scheduler, which replaces `--lr_scheduler_type`.
    pub fn scheduler_name(&self) -> Option<&'static str> {
        self.scheduler.as_ref().map(Scheduler::name)
    }
}

/// A feature that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Switch {
    /// Whether it is on.
    pub(crate) enabled: bool,
}

/// The optimizer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", content = "params")]
pub(crate) enum Optimizer {
    /// Adam with decoupled weight decay, which DeepSpeed's `Adam` is too.
    AdamW(AdamWParams),
}

/// The hyperparameters of AdamW.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AdamWParams {
    /// Peak learning rate.
    pub(crate) lr: f64,
    /// Decay of the first and the second moment.
    pub(crate) betas: [f64; 2],
    /// Added to the root of the second moment.
    pub(crate) eps: f64,
    /// Decoupled weight decay.
    pub(crate) weight_decay: f64,
}

/// `zero_optimization`, documented at <https://deepspeed.readthedocs.io/en/latest/zero3.html>.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Zero {
    /// What is sharded.
    pub(crate) stage: ZeroStage,
    /// Where the optimizer state is stored.
    pub(crate) offload_optimizer: Offload,
    /// Where the parameters are stored.
    pub(crate) offload_param: Offload,
    /// Reduce gradients during the backward pass.
    pub(crate) overlap_comm: bool,
    /// Copy gradients into one buffer.
    pub(crate) contiguous_gradients: bool,
    /// Elements of an all-gather.
    pub(crate) allgather_bucket_size: u64,
    /// Elements of a reduction.
    pub(crate) reduce_bucket_size: u64,
    /// Elements of an optimizer update.
    pub(crate) sub_group_size: u64,
    /// Elements to prefetch.
    pub(crate) stage3_prefetch_bucket_size: u64,
    /// Tensors with fewer elements are not sharded.
    pub(crate) stage3_param_persistence_threshold: u64,
    /// Maximum elements of small tensors that are not sharded.
    pub(crate) stage3_model_persistence_threshold: u64,
    /// Maximum elements of gathered parameters.
    pub(crate) stage3_max_live_parameters: u64,
    /// Parameters used again within this many elements are kept.
    pub(crate) stage3_max_reuse_distance: u64,
    /// Gather sharded parameters to save them.
    pub(crate) stage3_gather_16bit_weights_on_model_save: bool,
}

/// Where a part of the state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Offload {
    /// The memory.
    pub(crate) device: Placement,
    /// Page-locked memory, which is copied faster and cannot be swapped.
    pub(crate) pin_memory: bool,
}
