//! The flags of `spag-train` and the settings that they resolve to.

use std::path::PathBuf;

use clap::{ArgAction, Parser};
use spag_model::ShardSize;
use spag_train::{
    DataOrder, FirstStepRate, IntervalStrategy, Optim, Placement, SchedulerType, Start, TrainConfig, TrainMethod,
    ZeroStage, limits,
};

use spag_cli::{BosArgs, DeviceArgs, Error, Result, flags};

/// Train a LLaMA checkpoint on samples with SFT, SFTwithKL (imitation) or OfflinePO (self-play).
///
/// Takes the flags of the reference's training script, in snake_case or kebab-case. Flags of `transformers` without effect
/// are accepted with a note. Values that would change the result are errors.
#[derive(Debug, Parser)]
#[command(name = "spag-train", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct TrainArgs {
    /// The checkpoint to train: a Hugging Face folder or a GGUF file. A folder is written.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) model_name_or_path: PathBuf,
    /// The frozen reference model of the KL term.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) ref_model_name_or_path: Option<PathBuf>,
    /// Samples to train on: JSON lists or JSONL.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, help_heading = "Model and data")]
    pub(super) train_data_path: Vec<PathBuf>,
    /// Samples to evaluate the loss on.
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Model and data")]
    pub(super) eval_data_path: Vec<PathBuf>,
    /// Output folder of the trained model, metrics.jsonl and checkpoints.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) output_dir: PathBuf,
    /// Maximum number of tokens in a sample. Longer samples lose their beginning.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().max_length, value_parser = flags::whole(limits::LENGTH), help_heading = "Model and data")]
    pub(super) max_length: usize,
    /// Order of the samples: sequential, or shuffled (in every epoch).
    #[arg(long, value_name = "ORDER", default_value = "shuffled", help_heading = "Model and data")]
    pub(super) data_order: DataOrder,
    /// Seed of the order of samples.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().seed, help_heading = "Model and data")]
    pub(super) seed: u64,

    /// SFT (cross-entropy), SFTwithKL (imitation) or OfflinePO (self-play).
    #[arg(long, value_name = "METHOD", default_value = "SFT", help_heading = "Loss")]
    pub(super) train_method: TrainMethod,
    /// KL coefficient β (SFTwithKL, OfflinePO).
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = flags::within(limits::COEFFICIENT), help_heading = "Loss")]
    pub(super) lm_kl_coeff: f64,
    /// Weight α of the SFT loss on demonstrations (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = flags::within(limits::COEFFICIENT), help_heading = "Loss")]
    pub(super) lm_sft_coeff: f64,
    /// Clip range ε of the importance ratio (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().clip_range, value_parser = flags::within(limits::COEFFICIENT), help_heading = "Loss")]
    pub(super) clip_range: f64,

    /// Number of samples in a micro-batch.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().per_device_train_batch_size, value_parser = flags::whole(limits::BATCH), help_heading = "Steps")]
    pub(super) per_device_train_batch_size: usize,
    /// Number of micro-batches in an optimizer step, per rank. Their losses are averaged.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().gradient_accumulation_steps, value_parser = flags::whole(limits::ACCUMULATION), help_heading = "Steps")]
    pub(super) gradient_accumulation_steps: usize,
    /// Number of epochs.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().num_train_epochs, value_parser = flags::within(limits::EPOCHS), help_heading = "Steps")]
    pub(super) num_train_epochs: f64,
    /// Total number of optimizer steps; overrides --num_train_epochs unless -1.
    #[arg(long, value_name = "N", default_value_t = -1, value_parser = clap::value_parser!(i64).range(-1..=*limits::STEPS.end() as i64), help_heading = "Steps")]
    pub(super) max_steps: i64,
    /// Activation checkpointing: recompute activations in the backward pass. Less memory, more time, same result.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Steps")]
    pub(super) gradient_checkpointing: bool,

    /// Peak learning rate.
    #[arg(long, value_name = "X", default_value = "5e-5", value_parser = flags::within(limits::LEARNING_RATE), help_heading = "Optimizer")]
    pub(super) learning_rate: f64,
    /// Learning rate schedule: linear, cosine, constant (without warm-up) or constant_with_warmup. A scheduler in the file
    /// of --deepspeed replaces it.
    #[arg(long, value_name = "TYPE", default_value = "linear", help_heading = "Optimizer")]
    pub(super) lr_scheduler_type: SchedulerType,
    /// Learning rate of the first step under a scheduler of --deepspeed: min (warmup_min_lr, as in DeepSpeed since 0.15.3)
    /// or max (--learning_rate, as in earlier versions).
    #[arg(long, value_name = "RATE", default_value = "min", help_heading = "Optimizer")]
    pub(super) deepspeed_first_step: FirstStepRate,
    /// Share of all steps used for the linear warm-up.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().warmup_ratio, value_parser = flags::share, help_heading = "Optimizer")]
    pub(super) warmup_ratio: f64,
    /// Number of warm-up steps; overrides --warmup_ratio unless 0.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = flags::whole(limits::WARMUP_STEPS), help_heading = "Optimizer")]
    pub(super) warmup_steps: usize,
    /// Optimizer: adamw_torch, sgd (without momentum), or muon: the orthogonalised momentum for matrices of blocks, AdamW for
    /// all other parameters.
    #[arg(long, value_name = "NAME", default_value = "adamw_torch", help_heading = "Optimizer")]
    pub(super) optim: Optim,
    /// Weight decay; decoupled from the gradient, except for sgd.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().weight_decay, value_parser = flags::within(limits::WEIGHT_DECAY), help_heading = "Optimizer")]
    pub(super) weight_decay: f64,
    /// Decay rate β1 of the first moment.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().adam_beta1, value_parser = flags::below_one, help_heading = "Optimizer")]
    pub(super) adam_beta1: f64,
    /// Decay rate β2 of the second moment.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().adam_beta2, value_parser = flags::below_one, help_heading = "Optimizer")]
    pub(super) adam_beta2: f64,
    /// ε, added to the root of the second moment.
    #[arg(long, value_name = "X", default_value = "1e-8", value_parser = flags::within(limits::EPSILON), help_heading = "Optimizer")]
    pub(super) adam_epsilon: f64,
    /// Maximum global norm of the gradients (gradient clipping).
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().max_grad_norm, value_parser = flags::within(limits::GRAD_NORM), help_heading = "Optimizer")]
    pub(super) max_grad_norm: f64,

    /// Number of optimizer steps between lines of metrics.jsonl.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().logging_steps, value_parser = flags::whole(limits::STEPS), help_heading = "Output")]
    pub(super) logging_steps: usize,
    /// Folder of TensorBoard events [default: runs/ in --output_dir].
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) logging_dir: Option<PathBuf>,
    /// Metrics besides metrics.jsonl: tensorboard, or none.
    #[arg(long, value_name = "NAME", num_args = 1.., default_value = "tensorboard", help_heading = "Output")]
    pub(super) report_to: Vec<String>,
    /// When to evaluate: no, steps or epoch [default: epoch if --eval_data_path is given].
    #[arg(long, value_name = "WHEN", alias = "eval_strategy", help_heading = "Output")]
    pub(super) evaluation_strategy: Option<IntervalStrategy>,
    /// Number of steps between evaluations, with --evaluation_strategy steps [default: --logging_steps].
    #[arg(long, value_name = "N", value_parser = flags::whole(limits::STEPS), help_heading = "Output")]
    pub(super) eval_steps: Option<usize>,
    /// Number of samples in a micro-batch of evaluation.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().per_device_eval_batch_size, value_parser = flags::whole(limits::BATCH), help_heading = "Output")]
    pub(super) per_device_eval_batch_size: usize,
    /// When to write a checkpoint to checkpoint-<step>: no, steps or epoch.
    #[arg(long, value_name = "WHEN", default_value = "steps", help_heading = "Output")]
    pub(super) save_strategy: IntervalStrategy,
    /// Number of steps between checkpoints, with --save_strategy steps.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().save_steps, value_parser = flags::whole(limits::STEPS), help_heading = "Output")]
    pub(super) save_steps: usize,
    /// Keep only the N latest checkpoints [default: all].
    #[arg(long, value_name = "N", value_parser = flags::whole(limits::STEPS), help_heading = "Output")]
    pub(super) save_total_limit: Option<usize>,
    /// Largest file of a saved model, such as 5GB, 200MB or a number of bytes. A larger model is written as several files with
    /// an index.
    #[arg(long, value_name = "SIZE", default_value = "5GB", help_heading = "Output")]
    pub(super) max_shard_size: ShardSize,
    /// Resume from a checkpoint folder, or from the latest checkpoint in --output_dir (latest). Starts from scratch if there
    /// is no checkpoint yet, so latest is always safe to pass.
    #[arg(long, value_name = "DIR|latest", help_heading = "Output")]
    pub(super) resume_from_checkpoint: Option<PathBuf>,
    /// Delete the checkpoints in --output_dir and start from scratch.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Output")]
    pub(super) overwrite_output_dir: bool,
    /// Parameters in bf16, in memory and in files, with f32 master weights. Products are computed in bf16 with f32 sums.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Output")]
    pub(super) bf16: bool,

    #[command(flatten)]
    pub(super) bos: BosArgs,

    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// DeepSpeed configuration (JSON). Its ZeRO settings and its scheduler are used; other settings must agree with the
    /// flags.
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
            deepspeed_first_step: self.deepspeed_first_step,
            warmup_ratio: self.warmup_ratio,
            warmup_steps: (self.warmup_steps > 0).then_some(self.warmup_steps),
            optim: self.optim,
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
            max_shard_size: self.max_shard_size,
            evaluation_strategy: self.evaluation_strategy(),
            eval_steps: self.eval_steps,
            per_device_eval_batch_size: self.per_device_eval_batch_size,
            bf16: self.bf16,
            gradient_checkpointing: self.gradient_checkpointing,
        }
    }

    /// Evaluates every epoch by default if there is data to evaluate on.
    fn evaluation_strategy(&self) -> IntervalStrategy {
        match (self.evaluation_strategy, self.eval_data_path.is_empty()) {
            (_, true) => IntervalStrategy::No,
            (Some(asked), false) => asked,
            (None, false) => IntervalStrategy::Epoch,
        }
    }

    /// How the run starts. `transformers` writes `True` for `latest`.
    pub(super) fn start(&self) -> Result<Start> {
        let asked = self.resume_from_checkpoint.as_ref().map(|path| (path, path.to_string_lossy()));
        let resumes = asked.filter(|(_, text)| !text.is_empty() && flags::truth(text) != Ok(false));
        match (resumes, self.overwrite_output_dir) {
            (None, false) => Ok(Start::New),
            (None, true) => Ok(Start::Overwrite),
            (Some(_), true) => Err(Error::BadValue {
                flag: "--overwrite_output_dir True".into(),
                problem: "it would delete the checkpoint of --resume_from_checkpoint; use only one of the two".into(),
            }),
            (Some((_, text)), false) if text == "latest" || flags::truth(&text) == Ok(true) => Ok(Start::Latest),
            (Some((path, _)), false) => Ok(Start::From(path.clone())),
        }
    }

    /// The folder of TensorBoard events, if any, and the names in --report_to that are not supported.
    pub(super) fn events(&self) -> (Option<PathBuf>, Vec<&str>) {
        let known = |name: &str| matches!(name, "tensorboard" | "all" | "none");
        let others = self.report_to.iter().map(String::as_str).filter(|name| !known(name)).collect();
        let folder = || self.logging_dir.clone().unwrap_or_else(|| self.output_dir.join("runs"));
        ((!self.report_to.iter().any(|name| name == "none")).then(folder), others)
    }
}
