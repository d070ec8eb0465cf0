//! The settings of a training run: the reference's flags, with Hugging Face's defaults.

mod choices;
mod placement;

use serde::{Deserialize, Serialize};
use spag_model::{Activations, WeightDtype};

use crate::error::{Error, Result};

pub use choices::{DataOrder, IntervalStrategy, SchedulerType, TrainMethod};
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
    /// Share of the steps for linear warm-up, rounded up.
    pub warmup_ratio: f64,
    /// Steps of warm-up; overrides the ratio.
    pub warmup_steps: Option<usize>,
    /// AdamW's decoupled decay.
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
            warmup_ratio: 0.0,
            warmup_steps: None,
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
            evaluation_strategy: IntervalStrategy::No,
            eval_steps: None,
            per_device_eval_batch_size: 8,
            bf16: false,
            gradient_checkpointing: false,
        }
    }
}

impl TrainConfig {
    /// Rejects numbers out of range.
    ///
    /// # Errors
    /// [`Error::Setting`] naming the flag.
    pub fn check(&self) -> Result<()> {
        let wrong = |name: &'static str, reason: String| Err(Error::Setting { name, reason });
        for (name, value) in [
            ("per_device_train_batch_size", self.per_device_train_batch_size),
            ("gradient_accumulation_steps", self.gradient_accumulation_steps),
            ("logging_steps", self.logging_steps),
            ("save_steps", self.save_steps),
            ("save_total_limit", self.save_total_limit.unwrap_or(1)),
            ("eval_steps", self.eval_steps.unwrap_or(1)),
            ("per_device_eval_batch_size", self.per_device_eval_batch_size),
        ] {
            if value == 0 {
                return wrong(name, "must be at least 1".into());
            }
        }
        if self.max_length < 2 {
            return wrong("max_length", format!("must be at least 2, not {}", self.max_length));
        }
        if !(self.num_train_epochs.is_finite() && self.num_train_epochs > 0.0) {
            return wrong("num_train_epochs", format!("must be above 0, not {}", self.num_train_epochs));
        }
        for (name, value) in [
            ("learning_rate", self.learning_rate),
            ("weight_decay", self.weight_decay),
            ("max_grad_norm", self.max_grad_norm),
            ("adam_epsilon", self.adam_epsilon),
            ("lm_kl_coeff", self.lm_kl_coeff),
            ("lm_sft_coeff", self.lm_sft_coeff),
            ("clip_range", self.clip_range),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return wrong(name, format!("must be a number of at least 0, not {value}"));
            }
        }
        for (name, value) in [("adam_beta1", self.adam_beta1), ("adam_beta2", self.adam_beta2)] {
            if !(0.0..1.0).contains(&value) {
                return wrong(name, format!("must be in [0, 1), not {value}"));
            }
        }
        if !(0.0..=1.0).contains(&self.warmup_ratio) {
            return wrong("warmup_ratio", format!("must be in [0, 1], not {}", self.warmup_ratio));
        }
        Ok(())
    }

    /// Number format of the parameters, in memory and in files.
    pub fn dtype(&self) -> WeightDtype {
        if self.bf16 { WeightDtype::Bf16 } else { WeightDtype::F32 }
    }

    pub(crate) fn activations(&self) -> Activations {
        if self.gradient_checkpointing { Activations::Recompute } else { Activations::Keep }
    }
}
