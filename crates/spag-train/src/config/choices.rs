//! Settings with a fixed set of names.

use serde::{Deserialize, Serialize};

/// The learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerType {
    /// Linear decay to 0: Hugging Face's default.
    #[default]
    Linear,
    /// Half a cosine, down to 0.
    Cosine,
    /// No warm-up, no decay.
    Constant,
    /// Warm-up, then no decay.
    ConstantWithWarmup,
}

/// The optimizer, by transformers' names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Optim {
    /// PyTorch's AdamW.
    #[default]
    #[serde(rename = "adamw_torch", alias = "adamw_torch_fused", alias = "adamw")]
    AdamW,
    /// Stochastic gradient descent without momentum.
    #[serde(rename = "sgd")]
    Sgd,
    /// Muon for the matrices of blocks, AdamW for all other parameters.
    #[serde(rename = "muon")]
    Muon,
}

/// The order of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataOrder {
    /// The order of the files in every epoch.
    Sequential,
    /// Shuffled by the seed, differently in each epoch.
    #[default]
    Shuffled,
}

/// The learning rate of the first step under the scheduler of a DeepSpeed file, in which versions of DeepSpeed differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstStepRate {
    /// `warmup_min_lr`: DeepSpeed 0.15.3 and later.
    #[default]
    Min,
    /// The learning rate of the flags: DeepSpeed up to 0.15.2, whose scheduler sets no rate before the first step.
    Max,
}

/// When evaluations and checkpoints happen: transformers' `IntervalStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntervalStrategy {
    /// Never.
    No,
    /// At a fixed number of steps.
    Steps,
    /// After each epoch.
    Epoch,
}

spag_io::named_choices!(
    crate::loss::TrainMethod,
    Optim,
    SchedulerType,
    FirstStepRate,
    DataOrder,
    IntervalStrategy,
    super::Packing,
    super::Placement,
    super::ShardWithin
);
