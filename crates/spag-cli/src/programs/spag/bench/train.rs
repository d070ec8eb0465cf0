//! `spag bench train`: how fast this machine trains a model.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use spag_model::{LlamaConfig, LoadOptions, WeightDtype, load_model_with};
use spag_train::{TimingConfig, gib, peak_memory_of, time_steps};

use super::{on_threads, round};
use crate::{Result, device_args::DeviceArgs, exit, flags};

/// The flags of `spag bench train`.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct TrainArgs {
    /// The model: a Hugging Face folder; its tokenizer is not needed.
    #[arg(long, value_name = "DIR")]
    model_name_or_path: PathBuf,
    /// Sequences of a micro-batch.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = flags::count)]
    batch: usize,
    /// Tokens of a sequence.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = flags::count)]
    seq: usize,
    /// Steps that are timed; their median is printed.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = flags::count)]
    steps: usize,
    /// Steps before them that are not.
    #[arg(long, value_name = "N", default_value_t = 2)]
    warmup: usize,
    /// Micro-batches of a step, each of so many sequences.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = flags::count)]
    accumulation: usize,
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = flags::count)]
    threads: usize,
    /// Add the forward pass of a frozen reference model, and the KL term.
    #[arg(long = "ref")]
    reference: bool,
    /// Compute activations again in the backward pass.
    #[arg(long)]
    checkpointing: bool,
    /// Number format of the parameters: float32 or bfloat16.
    #[arg(long, value_name = "TYPE", default_value = "float32")]
    dtype: WeightDtype,
    #[command(flatten)]
    device: DeviceArgs,
    /// Seed of the tokens.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

pub(super) fn run(args: &TrainArgs) -> Result<()> {
    let device = args.device.open()?;
    let timing = TimingConfig {
        batch: args.batch,
        seq: args.seq,
        steps: args.steps,
        warmup: args.warmup,
        vocab_size: LlamaConfig::from_file(args.model_name_or_path.join("config.json"))?.vocab_size,
        seed: args.seed,
        gradient_checkpointing: args.checkpointing,
        accumulation: args.accumulation,
    };
    let options = LoadOptions { device: device.device().clone(), dtype: args.dtype };
    let load = || -> Result<_> { Ok(load_model_with(&args.model_name_or_path, &options)?) };
    let measured = on_threads(args.threads, || {
        let reference = args.reference.then(load).transpose()?;
        time_steps(load, reference, &timing)
    })?;
    let tokens = (args.batch * args.accumulation * args.seq) as f64;
    let passes = if args.reference { 8.0 } else { 6.0 };
    let flops = passes * measured.parameters as f64 * tokens / measured.seconds;
    exit::say(json!({
        "what": "spag train step",
        "params": measured.parameters,
        "seconds": round(measured.seconds, 5),
        "tokens_per_s": round(tokens / measured.seconds, 1),
        "model_tflops": round(flops / 1e12, 3),
        "peak_gib": peak_memory_of(device.device()).map(|bytes| round(gib(bytes), 2)),
        "loss": round(measured.loss, 4),
        "checkpoint": args.model_name_or_path,
        "device": device.to_string(),
        "dtype": args.dtype.to_string(),
        "batch": args.batch,
        "seq": args.seq,
        "steps": args.steps,
        "warmup": args.warmup,
        "threads": args.threads,
        "ref": args.reference,
        "checkpointing": args.checkpointing,
        "accumulation": args.accumulation,
    }))
}
