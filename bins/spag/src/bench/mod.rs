//! `spag bench`: measures the speed of training, generation and self-play.

mod card;
mod generate;
mod play;
mod train;
mod variants;

use std::ops::RangeInclusive;

use clap::Subcommand;

use spag_cli::{Result, threads};
use spag_ops::{CpuPath, OpenDevice};

/// Measure the speed of a model on this machine and print a line of JSON.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum BenchCommand {
    /// Time training steps on random tokens: forward, backward, clipping at 1.0, AdamW.
    Train(train::TrainArgs),
    /// Time prompts and their completions: a line for each batch size.
    Generate(generate::GenerateArgs),
    /// Time games of a model against itself, with utterances of a fixed length.
    Play(play::PlayArgs),
}

pub(super) fn run(command: BenchCommand) -> Result<()> {
    threads::start()?;
    match command {
        BenchCommand::Train(args) => train::run(&args),
        BenchCommand::Generate(args) => generate::run(&args),
        BenchCommand::Play(args) => play::run(&args),
    }
}

/// Steps of a measurement.
const STEPS: RangeInclusive<usize> = 1..=1_000_000;
/// Sequences of a micro-batch, or micro-batches of a step.
const BATCH: RangeInclusive<usize> = 1..=65_536;
/// Tokens of a micro-batch.
const TOKENS: RangeInclusive<usize> = 1..=1 << 24;

/// The name of the process's kernels on a CPU; none on a GPU.
fn cpu_path(device: &OpenDevice) -> Option<&'static str> {
    // Opening the device has reported a variable that names no usable path.
    device.device().is_cpu().then(CpuPath::selected).and_then(Result::ok).map(CpuPath::name)
}

/// `x` rounded to `digits` decimals.
fn round(x: f64, digits: i32) -> f64 {
    (x * 10f64.powi(digits)).round() / 10f64.powi(digits)
}
