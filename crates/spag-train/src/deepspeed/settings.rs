//! The settings after `"auto"` is filled in. Written as JSON they are a DeepSpeed file again.

use serde::Serialize;

use super::Scheduler;
use crate::config::ZeroStage;

/// A DeepSpeed file's settings, resolved: numbers instead of `"auto"`, DeepSpeed's defaults for what is left out.
///
/// What the file shares with the flags always equals the flags: a contradiction would have been an error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeepSpeed {
    /// Samples of an optimizer step: micro-batch × accumulation × processes.
    pub train_batch_size: u64,
    /// Samples of a micro-batch.
    pub train_micro_batch_size_per_gpu: u64,
    /// Micro-batches of an optimizer step.
    pub gradient_accumulation_steps: u64,
    /// Gradients are scaled down to this global norm; 0 leaves them.
    pub gradient_clipping: f64,
    /// bfloat16 training.
    pub bf16: Switch,
    /// float16 training: always off.
    pub fp16: Switch,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// DeepSpeed's own schedule. Where there is one, it replaces `--lr_scheduler_type`, as under transformers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// How the state of a model is split over processes.
    pub zero_optimization: Zero,
}

/// A feature that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// Whether it is on.
    pub enabled: bool,
}

/// AdamW, the one optimizer there is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", content = "params")]
pub enum Optimizer {
    /// Adam with decoupled weight decay, which DeepSpeed's `Adam` is as well.
    AdamW(AdamWParams),
}

/// AdamW's numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdamWParams {
    /// Peak learning rate.
    pub lr: f64,
    /// Decay of the first and the second moment.
    pub betas: [f64; 2],
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

/// `zero_optimization`, documented at <https://deepspeed.readthedocs.io/en/latest/zero3.html>.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Zero {
    /// What is split.
    pub stage: ZeroStage,
    /// Where the optimizer's state lives.
    pub offload_optimizer: Offload,
    /// Where the weights live.
    pub offload_param: Offload,
    /// Gradients are reduced while the backward pass still runs.
    pub overlap_comm: bool,
    /// Gradients are copied into one buffer as they come.
    pub contiguous_gradients: bool,
    /// Elements gathered at a time.
    pub allgather_bucket_size: u64,
    /// Elements reduced at a time.
    pub reduce_bucket_size: u64,
    /// Elements that the optimizer updates at a time.
    pub sub_group_size: u64,
    /// Elements fetched ahead of their use.
    pub stage3_prefetch_bucket_size: u64,
    /// Tensors with fewer elements are not split.
    pub stage3_param_persistence_threshold: u64,
    /// Most elements that may stay unsplit for being small.
    pub stage3_model_persistence_threshold: u64,
    /// Most elements held whole by a process.
    pub stage3_max_live_parameters: u64,
    /// Weights used again within so many elements are kept.
    pub stage3_max_reuse_distance: u64,
    /// Split weights are put together for saving.
    pub stage3_gather_16bit_weights_on_model_save: bool,
}

/// Where a part of the state lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Offload {
    /// The memory.
    pub device: Device,
    /// Page-locked memory, which copies faster and cannot be swapped out.
    pub pin_memory: bool,
}

/// A memory to offload to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// Stay with the model.
    None,
    /// The host's memory.
    Cpu,
}
