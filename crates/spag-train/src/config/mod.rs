//! The settings of a training run: the reference's flags, with Hugging Face's defaults.

mod choices;
pub mod limits;
mod placement;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use spag_io::{Ranged, in_range};
use spag_model::{Activations, ShardSize, WeightDtype, WriteOptions};

use crate::error::{Error, Result};

pub use choices::{DataOrder, FirstStepRate, IntervalStrategy, Optim, SchedulerType, TrainMethod};
pub use placement::{Placement, ShardingPlan, ShardingRequest, ZeroStage};

/// All settings of a training run; every key has the reference's flag name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The loss.
    #[serde(rename = "train_method")]
    pub method: TrainMethod,
    /// β: weight of the KL term.
    pub lm_kl_coeff: f64,
    /// α: weight of the SFT part of OfflinePO.
    pub lm_sft_coeff: f64,
    /// ε: the importance ratio is clipped to [1 − ε, 1 + ε].
    pub clip_range: f64,
    /// Samples of a micro-batch.
    pub per_device_train_batch_size: usize,
    /// Micro-batches of an optimizer step.
    pub gradient_accumulation_steps: usize,
    /// Epochs; may be a fraction.
    pub num_train_epochs: f64,
    /// Optimizer steps; overrides the epochs.
    pub max_steps: Option<usize>,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Shape of the schedule.
    pub lr_scheduler_type: SchedulerType,
    /// Rate of the first step under the scheduler of a DeepSpeed file.
    #[serde(skip_serializing_if = "FirstStepRate::is_default")]
    pub deepspeed_first_step: FirstStepRate,
    /// Share of the steps for linear warm-up, rounded up.
    pub warmup_ratio: f64,
    /// Steps of warm-up; overrides the ratio.
    pub warmup_steps: Option<usize>,
    /// The optimizer.
    #[serde(skip_serializing_if = "Optim::is_default")]
    pub optim: Optim,
    /// Weight decay: AdamW's and Muon's is decoupled from the gradient.
    pub weight_decay: f64,
    /// Decay of the first moment.
    pub adam_beta1: f64,
    /// Decay of the second moment.
    pub adam_beta2: f64,
    /// Added to the root of the second moment.
    pub adam_epsilon: f64,
    /// Gradients are clipped to this global norm; 0 does not clip.
    pub max_grad_norm: f64,
    /// Samples keep their last `max_length` tokens.
    pub max_length: usize,
    /// Order of the samples.
    pub data_order: DataOrder,
    /// Seed of the order.
    pub seed: u64,
    /// Steps between records of metrics.
    pub logging_steps: usize,
    /// When checkpoints are written.
    pub save_strategy: IntervalStrategy,
    /// Steps between checkpoints, for [`IntervalStrategy::Steps`].
    pub save_steps: usize,
    /// The number of checkpoints to keep; `None` keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_total_limit: Option<usize>,
    /// The largest file of a saved model.
    #[serde(skip_serializing_if = "ShardSize::is_default")]
    pub max_shard_size: ShardSize,
    /// When the evaluation loss is computed.
    pub evaluation_strategy: IntervalStrategy,
    /// Steps between evaluations, for [`IntervalStrategy::Steps`]; `None` is `logging_steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_steps: Option<usize>,
    /// Samples of an evaluation micro-batch.
    pub per_device_eval_batch_size: usize,
    /// Parameters in bf16, in memory and in files, with f32 master weights and moments.
    pub bf16: bool,
    /// Activation checkpointing: keep the inputs of blocks, and recompute the rest in the backward pass.
    pub gradient_checkpointing: bool,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            method: TrainMethod::Sft,
            lm_kl_coeff: 0.0,
            lm_sft_coeff: 0.0,
            clip_range: 0.2,
            per_device_train_batch_size: 8,
            gradient_accumulation_steps: 1,
            num_train_epochs: 3.0,
            max_steps: None,
            learning_rate: 5e-5,
            lr_scheduler_type: SchedulerType::Linear,
            deepspeed_first_step: FirstStepRate::Min,
            warmup_ratio: 0.0,
            warmup_steps: None,
            optim: Optim::AdamW,
            weight_decay: 0.0,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            max_grad_norm: 1.0,
            max_length: 256,
            data_order: DataOrder::Shuffled,
            seed: 42,
            logging_steps: 1,
            save_strategy: IntervalStrategy::Steps,
            save_steps: 500,
            save_total_limit: None,
            max_shard_size: ShardSize::default(),
            evaluation_strategy: IntervalStrategy::No,
            eval_steps: None,
            per_device_eval_batch_size: 8,
            bf16: false,
            gradient_checkpointing: false,
        }
    }
}

impl TrainConfig {
    /// Rejects numbers out of their ranges ([`limits`]).
    ///
    /// # Errors
    /// [`Error::Setting`] naming the flag and the range.
    pub fn check(&self) -> Result<()> {
        for (name, value, range) in [
            ("per_device_train_batch_size", Some(self.per_device_train_batch_size), limits::BATCH),
            ("per_device_eval_batch_size", Some(self.per_device_eval_batch_size), limits::BATCH),
            ("gradient_accumulation_steps", Some(self.gradient_accumulation_steps), limits::ACCUMULATION),
            ("max_length", Some(self.max_length), limits::LENGTH),
            ("max_steps", self.max_steps, limits::STEPS),
            ("warmup_steps", self.warmup_steps, limits::WARMUP_STEPS),
            ("logging_steps", Some(self.logging_steps), limits::STEPS),
            ("save_steps", Some(self.save_steps), limits::STEPS),
            ("save_total_limit", self.save_total_limit, limits::STEPS),
            ("eval_steps", self.eval_steps, limits::STEPS),
        ] {
            value.map_or(Ok(()), |value| checked(name, value, range))?;
        }
        for (name, value, range) in [
            ("num_train_epochs", self.num_train_epochs, limits::EPOCHS),
            ("learning_rate", self.learning_rate, limits::LEARNING_RATE),
            ("warmup_ratio", self.warmup_ratio, limits::SHARE),
            ("weight_decay", self.weight_decay, limits::WEIGHT_DECAY),
            ("adam_epsilon", self.adam_epsilon, limits::EPSILON),
            ("max_grad_norm", self.max_grad_norm, limits::GRAD_NORM),
            ("lm_kl_coeff", self.lm_kl_coeff, limits::COEFFICIENT),
            ("lm_sft_coeff", self.lm_sft_coeff, limits::COEFFICIENT),
            ("clip_range", self.clip_range, limits::COEFFICIENT),
        ] {
            checked(name, value, range)?;
        }
        for (name, value) in [("adam_beta1", self.adam_beta1), ("adam_beta2", self.adam_beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::Setting {
                    name,
                    reason: format!("expected a number from 0 to below 1, not {value}"),
                });
            }
        }
        Ok(())
    }

    /// Number format of the parameters, in memory and in files.
    pub fn dtype(&self) -> WeightDtype {
        if self.bf16 { WeightDtype::Bf16 } else { WeightDtype::F32 }
    }

    /// How the model is written.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions::new(self.dtype()).sharded(self.max_shard_size)
    }

    pub(crate) fn activations(&self) -> Activations {
        if self.gradient_checkpointing { Activations::Recompute } else { Activations::Keep }
    }
}

fn checked<T: Ranged>(name: &'static str, value: T, range: RangeInclusive<T>) -> Result<()> {
    let checked = in_range(value, range).map(drop);
    checked.map_err(|expected| Error::Setting { name, reason: format!("{expected}, not {value}") })
}
