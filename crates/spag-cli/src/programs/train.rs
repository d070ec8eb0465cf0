//! `spag-train`: imitation and offline policy optimisation with the reference's flags.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{ArgAction, Parser};
use spag_model::{LlamaConfig, WeightDtype};
use spag_train::{DataOrder, SaveStrategy, SchedulerType, TrainConfig, TrainJob, TrainMethod, TrainSummary};

use crate::{
    Result,
    context::fit_max_length,
    deepspeed, exit,
    flags::{self, Notes, Task},
    launch,
    programs::play::PlayArgs,
    progress::TerminalProgress,
};

/// Trains a LLaMA checkpoint on samples: SFT, SFTwithKL (imitation) or OfflinePO (self-play).
///
/// Takes the flags of the reference's training script, in snake_case or kebab-case. Flags of `transformers` that mean
/// nothing here are accepted and named; values that would change the result are errors.
#[derive(Debug, Parser)]
#[command(name = "spag-train", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct TrainArgs {
    /// The checkpoint to train: a Hugging Face folder.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    model_name_or_path: PathBuf,
    /// The frozen checkpoint that the KL term holds on to.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    ref_model_name_or_path: Option<PathBuf>,
    /// Samples: JSON lists or JSONL, joined in the order given.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, help_heading = "Model and data")]
    train_data_path: Vec<PathBuf>,
    /// Where the trained checkpoint and metrics.jsonl go.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    output_dir: PathBuf,
    /// Tokens of a sample at most; longer ones lose their beginning.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().max_length, value_parser = flags::count, help_heading = "Model and data")]
    max_length: usize,
    /// Order of the samples: sequential, or shuffled anew every epoch.
    #[arg(long, value_name = "ORDER", default_value = "shuffled", help_heading = "Model and data")]
    data_order: DataOrder,
    /// Seed of the order of samples.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().seed, help_heading = "Model and data")]
    seed: u64,

    /// SFT (cross-entropy), SFTwithKL (imitation) or OfflinePO (self-play).
    #[arg(long, value_name = "METHOD", default_value = "SFT", help_heading = "Loss")]
    train_method: TrainMethod,
    /// β: weight of the KL term (SFTwithKL, OfflinePO).
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = flags::not_negative, help_heading = "Loss")]
    lm_kl_coeff: f64,
    /// α: weight of the demonstrations' loss (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = flags::not_negative, help_heading = "Loss")]
    lm_sft_coeff: f64,
    /// ε: how far from 1 the importance ratio counts (OfflinePO).
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().clip_range, value_parser = flags::not_negative, help_heading = "Loss")]
    clip_range: f64,

    /// Samples of a micro-batch.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().per_device_train_batch_size, value_parser = flags::count, help_heading = "Steps")]
    per_device_train_batch_size: usize,
    /// Micro-batches of an optimizer step; their losses are averaged.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().gradient_accumulation_steps, value_parser = flags::count, help_heading = "Steps")]
    gradient_accumulation_steps: usize,
    /// Times the data are gone through.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().num_train_epochs, value_parser = flags::positive, help_heading = "Steps")]
    num_train_epochs: f64,
    /// Optimizer steps in all, in place of --num_train_epochs; -1 for none.
    #[arg(long, value_name = "N", default_value_t = -1, help_heading = "Steps")]
    max_steps: i64,
    /// Compute activations again in the backward pass rather than keep them: less memory, more time, same result.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Steps")]
    gradient_checkpointing: bool,

    /// Peak learning rate.
    #[arg(long, value_name = "X", default_value = "5e-5", value_parser = flags::not_negative, help_heading = "Optimizer (AdamW)")]
    learning_rate: f64,
    /// The rate after its rise: linear, cosine, constant (no rise) or constant_with_warmup.
    #[arg(long, value_name = "TYPE", default_value = "linear", help_heading = "Optimizer (AdamW)")]
    lr_scheduler_type: SchedulerType,
    /// Share of all steps over which the learning rate rises from 0.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().warmup_ratio, value_parser = flags::share, help_heading = "Optimizer (AdamW)")]
    warmup_ratio: f64,
    /// Steps of the rise, in place of --warmup_ratio; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Optimizer (AdamW)")]
    warmup_steps: usize,
    /// Decoupled weight decay.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().weight_decay, value_parser = flags::not_negative, help_heading = "Optimizer (AdamW)")]
    weight_decay: f64,
    /// Decay of the mean gradient.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().adam_beta1, value_parser = flags::below_one, help_heading = "Optimizer (AdamW)")]
    adam_beta1: f64,
    /// Decay of the mean squared gradient.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().adam_beta2, value_parser = flags::below_one, help_heading = "Optimizer (AdamW)")]
    adam_beta2: f64,
    /// Added to the root of the mean squared gradient.
    #[arg(long, value_name = "X", default_value = "1e-8", value_parser = flags::positive, help_heading = "Optimizer (AdamW)")]
    adam_epsilon: f64,
    /// Gradients are scaled down to this global norm.
    #[arg(long, value_name = "X", default_value_t = TrainConfig::default().max_grad_norm, value_parser = flags::not_negative, help_heading = "Optimizer (AdamW)")]
    max_grad_norm: f64,

    /// Optimizer steps between two lines of metrics.jsonl.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().logging_steps, value_parser = flags::count, help_heading = "Output")]
    logging_steps: usize,
    /// Checkpoints besides the final one: no, or epoch (checkpoint-<step> after each).
    #[arg(long, value_name = "WHEN", default_value = "no", help_heading = "Output")]
    save_strategy: SaveStrategy,
    /// Save the weights as bf16. Arithmetic is f32 all the same.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Output")]
    bf16: bool,
    /// ZeRO settings in DeepSpeed's JSON; one process has nothing to split.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    deepspeed: Option<PathBuf>,
}

/// Runs the program on the arguments of this process.
pub fn main() -> ExitCode {
    exit::run(|| run(std::env::args_os()))
}

fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let (args, notes) = flags::parse_reference::<TrainArgs, PlayArgs>(Task::Training, args)?;
    launch::require_single_process("trains")?;
    let job = job(args, notes)?;
    let summary = spag_train::run(&job, &mut TerminalProgress::new())?;
    exit::say(told(&summary, &job))
}

/// What the flags ask for; says on stderr which of them have no effect.
fn job(args: TrainArgs, mut notes: Notes) -> Result<TrainJob> {
    // The reference's scripts pass an empty name for "none".
    let mut reference = args.ref_model_name_or_path.clone().filter(|path| !path.as_os_str().is_empty());
    if reference.is_some() && !args.train_method.needs_reference() {
        notes.add_idle("ref_model_name_or_path", "SFT has no KL term");
        reference = None;
    }
    if let Some(path) = &args.deepspeed {
        deepspeed::check(path)?;
        notes.add_idle("deepspeed", "one process has no state to split");
    }
    if args.bf16 {
        notes.add_remark("--bf16: the weights are saved as bf16; arithmetic is f32");
    }
    notes.say();
    let positions = LlamaConfig::from_file(args.model_name_or_path.join("config.json"))?.max_position_embeddings;
    let max_length = fit_max_length(args.max_length, positions, &args.model_name_or_path);
    Ok(TrainJob {
        config: train_config(&args, max_length),
        model_name_or_path: args.model_name_or_path,
        ref_model_name_or_path: reference,
        train_data_path: args.train_data_path,
        output_dir: args.output_dir,
    })
}

fn train_config(args: &TrainArgs, max_length: usize) -> TrainConfig {
    TrainConfig {
        method: args.train_method,
        lm_kl_coeff: args.lm_kl_coeff,
        lm_sft_coeff: args.lm_sft_coeff,
        clip_range: args.clip_range,
        per_device_train_batch_size: args.per_device_train_batch_size,
        gradient_accumulation_steps: args.gradient_accumulation_steps,
        num_train_epochs: args.num_train_epochs,
        max_steps: usize::try_from(args.max_steps).ok().filter(|steps| *steps > 0),
        learning_rate: args.learning_rate,
        lr_scheduler_type: args.lr_scheduler_type,
        warmup_ratio: args.warmup_ratio,
        warmup_steps: (args.warmup_steps > 0).then_some(args.warmup_steps),
        weight_decay: args.weight_decay,
        adam_beta1: args.adam_beta1,
        adam_beta2: args.adam_beta2,
        adam_epsilon: args.adam_epsilon,
        max_grad_norm: args.max_grad_norm,
        max_length,
        data_order: args.data_order,
        seed: args.seed,
        logging_steps: args.logging_steps,
        save_strategy: args.save_strategy,
        save_dtype: if args.bf16 { WeightDtype::Bf16 } else { WeightDtype::F32 },
        gradient_checkpointing: args.gradient_checkpointing,
    }
}

/// The result in a few lines.
fn told(summary: &TrainSummary, job: &TrainJob) -> String {
    let rate = summary.tokens as f64 / summary.seconds.max(1e-9);
    let mut text = format!(
        "{} steps, {} tokens in {:.1} s ({rate:.0} tokens/s), loss {:.4} -> {:.4}\ncheckpoint and metrics.jsonl in {}",
        summary.steps,
        summary.tokens,
        summary.seconds,
        summary.first_loss,
        summary.last_loss,
        job.output_dir.display(),
    );
    if !summary.dropped.is_empty() {
        let rows = summary.dropped.iter().take(8).map(usize::to_string).collect::<Vec<_>>().join(", ");
        let more = if summary.dropped.len() > 8 { ", …" } else { "" };
        let count = summary.dropped.len();
        text += &format!(
            "\nleft out: {count} samples whose target does not fit into --max_length (rows, from 0: {rows}{more})"
        );
    }
    if summary.skipped_steps > 0 {
        text += &format!("\nskipped: {} steps whose loss or gradients were not finite", summary.skipped_steps);
    }
    text
}

#[cfg(test)]
mod tests;
