//! The flags of `spag-train`, and what they resolve to.

use std::path::PathBuf;

use clap::{ArgAction, Parser};
use spag_train::{DataOrder, IntervalStrategy, Placement, SchedulerType, Start, TrainConfig, TrainMethod, ZeroStage};

use spag_cli::{DeviceArgs, Error, Result, flags};

/// Trains a LLaMA checkpoint on samples: SFT, SFTwithKL (imitation) or OfflinePO (self-play).
///
/// Takes the flags of the reference's training script, in snake_case or kebab-case. Flags of `transformers` that mean
/// nothing here are accepted and named; values that would change the result are errors.
#[derive(Debug, Parser)]
#[command(name = "spag-train", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct TrainArgs {
    /// The checkpoint to train: a Hugging Face folder.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) model_name_or_path: PathBuf,
    /// The frozen checkpoint that the KL term holds on to.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) ref_model_name_or_path: Option<PathBuf>,
    /// Samples: JSON lists or JSONL, joined in the order given.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, help_heading = "Model and data")]
    pub(super) train_data_path: Vec<PathBuf>,
    /// Samples whose loss is measured now and then, and never trained on.
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Model and data")]
    pub(super) eval_data_path: Vec<PathBuf>,
    /// Where the trained checkpoint, metrics.jsonl and checkpoints go.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) output_dir: PathBuf,
    /// Tokens of a sample at most; longer ones lose their beginning.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().max_length, value_parser = flags::count, help_heading = "Model and data")]
    pub(super) max_length: usize,
    /// Order of the samples: sequential, or shuffled anew every epoch.
    #[arg(long, value_name = "ORDER", default_value = "shuffled", help_heading = "Model and data")]
    pub(super) data_order: DataOrder,
    /// Seed of the order of samples.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().seed, help_heading = "Model and data")]
    pub(super) seed: u64,

    /// SFT (cross-entropy), SFTwithKL (imitation) or OfflinePO (self-play).
    #[arg(long, value_name = "METHOD", default_value = "SFT", help_heading = "Loss")]
    pub(super) train_method: TrainMethod,
    /// β: weight of the KL term (SFTwithKL, OfflinePO).
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = flags::not_negative, help_heading = "Loss")]
    pub(super) lm_kl_coeff: f64,
    /// α: weight of the demonstrations' loss (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = flags::not_negative, help_heading = "Loss")]
    pub(super) lm_sft_coeff: f64,
    /// ε: how far from 1 the importance ratio counts (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().clip_range, value_parser = flags::not_negative, help_heading = "Loss")]
    pub(super) clip_range: f64,

    /// Samples of a micro-batch.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().per_device_train_batch_size, value_parser = flags::count, help_heading = "Steps")]
    pub(super) per_device_train_batch_size: usize,
    /// Micro-batches of an optimizer step; their losses are averaged.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().gradient_accumulation_steps, value_parser = flags::count, help_heading = "Steps")]
    pub(super) gradient_accumulation_steps: usize,
    /// Times the data are gone through.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().num_train_epochs, value_parser = flags::positive, help_heading = "Steps")]
    pub(super) num_train_epochs: f64,
    /// Optimizer steps in all, in place of --num_train_epochs; -1 for none.
    #[arg(long, value_name = "N", default_value_t = -1, help_heading = "Steps")]
    pub(super) max_steps: i64,
    /// Compute activations again in the backward pass rather than keep them: less memory, more time, same result.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Steps")]
    pub(super) gradient_checkpointing: bool,

    /// Peak learning rate.
    #[arg(long, value_name = "X", default_value = "5e-5", value_parser = flags::not_negative, help_heading = "Optimizer (AdamW)")]
    pub(super) learning_rate: f64,
    /// The rate after its rise: linear, cosine, constant (no rise) or constant_with_warmup.
    #[arg(long, value_name = "TYPE", default_value = "linear", help_heading = "Optimizer (AdamW)")]
    pub(super) lr_scheduler_type: SchedulerType,
    /// Share of all steps over which the learning rate rises from 0.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().warmup_ratio, value_parser = flags::share, help_heading = "Optimizer (AdamW)")]
    pub(super) warmup_ratio: f64,
    /// Steps of the rise, in place of --warmup_ratio; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Optimizer (AdamW)")]
    pub(super) warmup_steps: usize,
    /// Decoupled weight decay.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().weight_decay, value_parser = flags::not_negative, help_heading = "Optimizer (AdamW)")]
    pub(super) weight_decay: f64,
    /// Decay of the mean gradient.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().adam_beta1, value_parser = flags::below_one, help_heading = "Optimizer (AdamW)")]
    pub(super) adam_beta1: f64,
    /// Decay of the mean squared gradient.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().adam_beta2, value_parser = flags::below_one, help_heading = "Optimizer (AdamW)")]
    pub(super) adam_beta2: f64,
    /// Added to the root of the mean squared gradient.
    #[arg(long, value_name = "X", default_value = "1e-8", value_parser = flags::positive, help_heading = "Optimizer (AdamW)")]
    pub(super) adam_epsilon: f64,
    /// Gradients are scaled down to this global norm.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().max_grad_norm, value_parser = flags::not_negative, help_heading = "Optimizer (AdamW)")]
    pub(super) max_grad_norm: f64,

    /// Optimizer steps between two lines of metrics.jsonl.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().logging_steps, value_parser = flags::count, help_heading = "Output")]
    pub(super) logging_steps: usize,
    /// Where TensorBoard events go; by default runs/ in --output_dir.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) logging_dir: Option<PathBuf>,
    /// Metrics besides metrics.jsonl: tensorboard, or none.
    #[arg(long, value_name = "NAME", num_args = 1.., default_value = "tensorboard", help_heading = "Output")]
    pub(super) report_to: Vec<String>,
    /// When the loss on --eval_data_path is measured: no, steps or epoch (where that flag is given, the default).
    #[arg(long, value_name = "WHEN", alias = "eval_strategy", help_heading = "Output")]
    pub(super) evaluation_strategy: Option<IntervalStrategy>,
    /// Steps between evaluations, for --evaluation_strategy steps; by default --logging_steps.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Output")]
    pub(super) eval_steps: Option<usize>,
    /// Samples of an evaluation micro-batch.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().per_device_eval_batch_size, value_parser = flags::count, help_heading = "Output")]
    pub(super) per_device_eval_batch_size: usize,
    /// When a checkpoint that training can go on from is written to checkpoint-<step>: no, steps or epoch.
    #[arg(long, value_name = "WHEN", default_value = "steps", help_heading = "Output")]
    pub(super) save_strategy: IntervalStrategy,
    /// Steps between checkpoints, for --save_strategy steps.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().save_steps, value_parser = flags::count, help_heading = "Output")]
    pub(super) save_steps: usize,
    /// Delete the oldest checkpoints beyond so many; by default all are kept.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Output")]
    pub(super) save_total_limit: Option<usize>,
    /// Go on from a checkpoint: its folder, or latest for the last one in --output_dir (from the start if there is none).
    #[arg(long, value_name = "DIR|latest", help_heading = "Output")]
    pub(super) resume_from_checkpoint: Option<PathBuf>,
    /// Begin anew in an --output_dir that holds checkpoints, and delete them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Output")]
    pub(super) overwrite_output_dir: bool,
    /// Parameters in bf16, in memory and in files, with f32 master weights. Arithmetic on a CPU is f32 either way.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Output")]
    pub(super) bf16: bool,

    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// ZeRO settings in DeepSpeed's JSON: checked against the flags.
    #[arg(long, value_name = "FILE", help_heading = "Device")]
    pub(super) deepspeed: Option<PathBuf>,
    /// What is sharded over the ranks: nothing (0), the optimizer state (1), gradients too (2), parameters too (3). By
    /// default the stage of --deepspeed, or 0 without it. The result is the same.
    #[arg(long, value_name = "STAGE", help_heading = "Device")]
    pub(super) zero_stage: Option<ZeroStage>,
    /// Where the parameters of ZeRO stage 3 are stored between their uses: none (on the device) or cpu (in host memory).
    #[arg(long, value_name = "PLACE", default_value = "none", help_heading = "Device")]
    pub(super) offload_param: Placement,
    /// Where the optimizer state is stored if the model is on a GPU: none (on the device), cpu (in host memory), or auto,
    /// which is none if it fits.
    // The full path keeps clap from treating the type as an optional flag: `None` is the parsed `auto`.
    #[arg(long, value_name = "PLACE", default_value = "auto", value_parser = Placement::or_auto, help_heading = "Device")]
    pub(super) offload_optimizer: ::std::option::Option<Placement>,
}

impl TrainArgs {
    /// The settings that the flags resolve to, with samples of at most `max_length` tokens.
    pub(super) fn config(&self, max_length: usize) -> TrainConfig {
        TrainConfig {
            method: self.train_method,
            lm_kl_coeff: self.lm_kl_coeff,
            lm_sft_coeff: self.lm_sft_coeff,
            clip_range: self.clip_range,
            per_device_train_batch_size: self.per_device_train_batch_size,
            gradient_accumulation_steps: self.gradient_accumulation_steps,
            num_train_epochs: self.num_train_epochs,
            max_steps: usize::try_from(self.max_steps).ok().filter(|steps| *steps > 0),
            learning_rate: self.learning_rate,
            lr_scheduler_type: self.lr_scheduler_type,
            warmup_ratio: self.warmup_ratio,
            warmup_steps: (self.warmup_steps > 0).then_some(self.warmup_steps),
            weight_decay: self.weight_decay,
            adam_beta1: self.adam_beta1,
            adam_beta2: self.adam_beta2,
            adam_epsilon: self.adam_epsilon,
            max_grad_norm: self.max_grad_norm,
            max_length,
            data_order: self.data_order,
            seed: self.seed,
            logging_steps: self.logging_steps,
            save_strategy: self.save_strategy,
            save_steps: self.save_steps,
            save_total_limit: self.save_total_limit,
            evaluation_strategy: self.evaluation_strategy(),
            eval_steps: self.eval_steps,
            per_device_eval_batch_size: self.per_device_eval_batch_size,
            bf16: self.bf16,
            gradient_checkpointing: self.gradient_checkpointing,
        }
    }

    /// Data to evaluate on are given to be evaluated on; the flag says otherwise where it is given too.
    fn evaluation_strategy(&self) -> IntervalStrategy {
        match (self.evaluation_strategy, self.eval_data_path.is_empty()) {
            (_, true) => IntervalStrategy::No,
            (Some(asked), false) => asked,
            (None, false) => IntervalStrategy::Epoch,
        }
    }

    /// Whether an earlier start goes on. `True` is how transformers writes `latest`.
    pub(super) fn start(&self) -> Result<Start> {
        let asked = self.resume_from_checkpoint.as_ref().map(|path| (path, path.to_string_lossy()));
        let resumes = asked.filter(|(_, text)| !text.is_empty() && flags::truth(text) != Ok(false));
        match (resumes, self.overwrite_output_dir) {
            (None, false) => Ok(Start::New),
            (None, true) => Ok(Start::Overwrite),
            (Some(_), true) => Err(Error::BadValue {
                flag: "--overwrite_output_dir True".into(),
                problem: "it would delete what --resume_from_checkpoint goes on from; leave one of them out".into(),
            }),
            (Some((_, text)), false) if text == "latest" || flags::truth(&text) == Ok(true) => Ok(Start::Latest),
            (Some((path, _)), false) => Ok(Start::From(path.clone())),
        }
    }

    /// Where TensorBoard events go, if anywhere, and what else was asked for and is not there.
    pub(super) fn events(&self) -> (Option<PathBuf>, Vec<&str>) {
        let known = |name: &str| matches!(name, "tensorboard" | "all" | "none");
        let others = self.report_to.iter().map(String::as_str).filter(|name| !known(name)).collect();
        match self.report_to.iter().any(|name| name == "none") {
            true => (None, others),
            false => (Some(self.logging_dir.clone().unwrap_or_else(|| self.output_dir.join("runs"))), others),
        }
    }
}
