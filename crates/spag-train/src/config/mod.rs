//! The settings of a training run: the reference's flags, with Hugging Face's defaults.

mod choices;
mod job_settings;
pub mod limits;
mod placement;

use clap::{ArgAction, Args};
use serde::{Deserialize, Serialize};
use spag_io::{Range as _, check_settings};
use spag_model::{Activations, ShardSize, WeightDtype, WriteOptions};

use crate::error::{Error, Result};

pub use choices::{DataOrder, FirstStepRate, IntervalStrategy, SchedulerType, TrainMethod};
pub use job_settings::JobSettings;
pub use placement::{Placement, ShardingPlan, ShardingRequest, ZeroStage};

/// All settings of a training run; every key has the reference's flag name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields)]
#[command(rename_all = "snake_case")]
pub struct TrainConfig {
    /// SFT (cross-entropy), SFTwithKL (imitation) or OfflinePO (self-play).
    #[arg(long = "train_method", value_name = "METHOD", default_value_t = Self::default().method, help_heading = "Loss")]
    #[serde(rename = "train_method")]
    pub method: TrainMethod,
    /// KL coefficient β (SFTwithKL, OfflinePO).
    #[arg(long, value_name = "X", default_value_t = Self::default().lm_kl_coeff, value_parser = limits::Coefficient::parse, help_heading = "Loss")]
    #[serde(deserialize_with = "limits::Coefficient::read")]
    pub lm_kl_coeff: f64,
    /// Weight α of the SFT loss on demonstrations (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = Self::default().lm_sft_coeff, value_parser = limits::Coefficient::parse, help_heading = "Loss")]
    #[serde(deserialize_with = "limits::Coefficient::read")]
    pub lm_sft_coeff: f64,
    /// Clip range ε of the importance ratio (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = Self::default().clip_range, value_parser = limits::Coefficient::parse, help_heading = "Loss")]
    #[serde(deserialize_with = "limits::Coefficient::read")]
    pub clip_range: f64,
    /// Number of samples in a micro-batch.
    #[arg(long, value_name = "N", default_value_t = Self::default().per_device_train_batch_size, value_parser = limits::Batch::parse, help_heading = "Steps")]
    #[serde(deserialize_with = "limits::Batch::read")]
    pub per_device_train_batch_size: usize,
    /// Number of micro-batches in an optimizer step, per rank. Their losses are averaged.
    #[arg(long, value_name = "N", default_value_t = Self::default().gradient_accumulation_steps, value_parser = limits::Accumulation::parse, help_heading = "Steps")]
    #[serde(deserialize_with = "limits::Accumulation::read")]
    pub gradient_accumulation_steps: usize,
    /// Number of epochs.
    #[arg(long, value_name = "X", default_value_t = Self::default().num_train_epochs, value_parser = limits::Epochs::parse, help_heading = "Steps")]
    #[serde(deserialize_with = "limits::Epochs::read")]
    pub num_train_epochs: f64,
    /// Total number of optimizer steps; overrides --num_train_epochs unless -1.
    // The full path keeps clap from treating the type as an optional flag, here and below.
    #[arg(long, value_name = "N", default_value = "-1", value_parser = limits::max_steps, help_heading = "Steps")]
    #[serde(deserialize_with = "limits::Steps::read")]
    pub max_steps: ::std::option::Option<usize>,
    /// Peak learning rate.
    #[arg(long, value_name = "X", default_value = "5e-5", value_parser = limits::LearningRate::parse, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::LearningRate::read")]
    pub learning_rate: f64,
    /// Learning rate schedule: linear, cosine, constant (without warm-up) or constant_with_warmup. A scheduler in the file
    /// of --deepspeed replaces it.
    #[arg(long, value_name = "TYPE", default_value_t = Self::default().lr_scheduler_type, help_heading = "Optimizer (AdamW)")]
    pub lr_scheduler_type: SchedulerType,
    /// Learning rate of the first step under a scheduler of --deepspeed: min (warmup_min_lr, as in DeepSpeed since 0.15.3)
    /// or max (--learning_rate, as in earlier versions).
    #[arg(long, value_name = "RATE", default_value_t = Self::default().deepspeed_first_step, help_heading = "Optimizer (AdamW)")]
    #[serde(skip_serializing_if = "FirstStepRate::is_default")]
    pub deepspeed_first_step: FirstStepRate,
    /// Share of all steps used for the linear warm-up.
    #[arg(long, value_name = "X", default_value_t = Self::default().warmup_ratio, value_parser = limits::WarmupRatio::parse, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::WarmupRatio::read")]
    pub warmup_ratio: f64,
    /// Number of warm-up steps; overrides --warmup_ratio unless 0.
    #[arg(long, value_name = "N", default_value = "0", value_parser = limits::warmup_steps, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::WarmupSteps::read")]
    pub warmup_steps: ::std::option::Option<usize>,
    /// Decoupled weight decay.
    #[arg(long, value_name = "X", default_value_t = Self::default().weight_decay, value_parser = limits::WeightDecay::parse, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::WeightDecay::read")]
    pub weight_decay: f64,
    /// Decay rate β1 of the first moment.
    #[arg(long, value_name = "X", default_value_t = Self::default().adam_beta1, value_parser = limits::Decay::parse, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::Decay::read")]
    pub adam_beta1: f64,
    /// Decay rate β2 of the second moment.
    #[arg(long, value_name = "X", default_value_t = Self::default().adam_beta2, value_parser = limits::Decay::parse, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::Decay::read")]
    pub adam_beta2: f64,
    /// ε, added to the root of the second moment.
    #[arg(long, value_name = "X", default_value = "1e-8", value_parser = limits::Epsilon::parse, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::Epsilon::read")]
    pub adam_epsilon: f64,
    /// Maximum global norm of the gradients (gradient clipping).
    #[arg(long, value_name = "X", default_value_t = Self::default().max_grad_norm, value_parser = limits::GradNorm::parse, help_heading = "Optimizer (AdamW)")]
    #[serde(deserialize_with = "limits::GradNorm::read")]
    pub max_grad_norm: f64,
    /// Maximum number of tokens in a sample. Longer samples lose their beginning.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_length, value_parser = limits::Length::parse, help_heading = "Model and data")]
    #[serde(deserialize_with = "limits::Length::read")]
    pub max_length: usize,
    /// Order of the samples: sequential, or shuffled (in every epoch).
    #[arg(long, value_name = "ORDER", default_value_t = Self::default().data_order, help_heading = "Model and data")]
    pub data_order: DataOrder,
    /// Seed of the order of samples.
    #[arg(long, value_name = "N", default_value_t = Self::default().seed, help_heading = "Model and data")]
    pub seed: u64,
    /// Number of optimizer steps between lines of metrics.jsonl.
    #[arg(long, value_name = "N", default_value_t = Self::default().logging_steps, value_parser = limits::Steps::parse, help_heading = "Output")]
    #[serde(deserialize_with = "limits::Steps::read")]
    pub logging_steps: usize,
    /// When to write a checkpoint to checkpoint-<step>: no, steps or epoch.
    #[arg(long, value_name = "WHEN", default_value_t = Self::default().save_strategy, help_heading = "Output")]
    pub save_strategy: IntervalStrategy,
    /// Number of steps between checkpoints, with --save_strategy steps.
    #[arg(long, value_name = "N", default_value_t = Self::default().save_steps, value_parser = limits::Steps::parse, help_heading = "Output")]
    #[serde(deserialize_with = "limits::Steps::read")]
    pub save_steps: usize,
    /// Keep only the N latest checkpoints [default: all].
    #[arg(long, value_name = "N", value_parser = limits::Steps::parse, help_heading = "Output")]
    #[serde(deserialize_with = "limits::Steps::read", skip_serializing_if = "Option::is_none")]
    pub save_total_limit: Option<usize>,
    /// Largest file of a saved model, such as 5GB, 200MB or a number of bytes. A larger model is written as several files with
    /// an index.
    #[arg(long, value_name = "SIZE", default_value_t = Self::default().max_shard_size, help_heading = "Output")]
    #[serde(skip_serializing_if = "ShardSize::is_default")]
    pub max_shard_size: ShardSize,
    /// When to evaluate: no, steps or epoch [default: epoch if --eval_data_path is given].
    // Without such data it is `No`, the default of files: there is nothing to evaluate.
    #[arg(
        long,
        value_name = "WHEN",
        alias = "eval_strategy",
        default_value = "epoch",
        hide_default_value = true,
        help_heading = "Output"
    )]
    pub evaluation_strategy: IntervalStrategy,
    /// Number of steps between evaluations, with --evaluation_strategy steps [default: --logging_steps].
    #[arg(long, value_name = "N", value_parser = limits::Steps::parse, help_heading = "Output")]
    #[serde(deserialize_with = "limits::Steps::read", skip_serializing_if = "Option::is_none")]
    pub eval_steps: Option<usize>,
    /// Number of samples in a micro-batch of evaluation.
    #[arg(long, value_name = "N", default_value_t = Self::default().per_device_eval_batch_size, value_parser = limits::Batch::parse, help_heading = "Output")]
    #[serde(deserialize_with = "limits::Batch::read")]
    pub per_device_eval_batch_size: usize,
    /// Parameters in bf16, in memory and in files, with f32 master weights. Products are computed in bf16 with f32 sums.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = spag_io::truth, help_heading = "Output")]
    pub bf16: bool,
    /// Activation checkpointing: recompute activations in the backward pass. Less memory, more time, same result.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = spag_io::truth, help_heading = "Steps")]
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
        check_settings(self).map_err(|(name, reason)| Error::Setting { name, reason })
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
