//! `spag bench`: measures the speed of training, generation, self-play and of links between ranks.

mod card;
mod generate;
mod links;
mod play;
mod simulated;
mod train;
mod variants;

use std::ops::RangeInclusive;

use clap::Subcommand;

use spag_cli::{Result, threads};
use spag_ops::kernels::SumOrder;
use spag_ops::{CpuPath, OpenDevice};

/// Measure the speed of a model on this machine, or of links between ranks.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum BenchCommand {
    /// Time training steps on random tokens: forward, backward, clipping at 1.0, AdamW.
    Train(train::TrainArgs),
    /// Time prompts and their completions: a line for each batch size.
    Generate(generate::GenerateArgs),
    /// Time games of a model against itself, with utterances of a fixed length.
    Play(play::PlayArgs),
    /// Time collectives between the ranks of a launcher and print their bandwidths.
    Links(links::LinksArgs),
}

pub(super) fn run(command: BenchCommand) -> Result<()> {
    threads::start()?;
    match command {
        BenchCommand::Train(args) => train::run(&args),
        BenchCommand::Generate(args) => generate::run(&args),
        BenchCommand::Play(args) => play::run(&args),
        BenchCommand::Links(args) => links::run(&args),
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

/// The names of [`SumOrder`]s.
const ORDERS: [(&str, SumOrder); 2] = [("any", SumOrder::Any), ("fixed", SumOrder::Fixed)];

/// The order of a name.
fn sum_order(name: &str) -> Result<SumOrder, String> {
    let order = ORDERS.iter().find(|(known, _)| *known == name);
    order.map(|(_, order)| *order).ok_or_else(|| "expected any or fixed".into())
}

/// The name of an order.
fn order_name(order: SumOrder) -> Option<&'static str> {
    ORDERS.iter().find(|(_, known)| *known == order).map(|(name, _)| *name)
}

/// `x` rounded to `digits` decimals.
fn round(x: f64, digits: i32) -> f64 {
    (x * 10f64.powi(digits)).round() / 10f64.powi(digits)
}
