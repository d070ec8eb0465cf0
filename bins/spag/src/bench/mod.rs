//! `spag bench`: measures the speed of training and of self-play.

mod play;
mod ranks;
mod train;

use clap::Subcommand;

use spag_cli::{Error, Result};

/// Measure the speed of a model on this machine and print one line of JSON.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum BenchCommand {
    /// Time training steps on random tokens: forward, backward, clipping at 1.0, AdamW.
    Train(train::TrainArgs),
    /// Time games of a model against itself, with utterances of a fixed length.
    Play(play::PlayArgs),
}

pub(super) fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Train(args) => train::run(&args),
        BenchCommand::Play(args) => play::run(&args),
    }
}

/// Runs `f` on a pool of `threads` threads.
fn on_threads<R: Send, E: Send>(threads: usize, f: impl FnOnce() -> Result<R, E> + Send) -> Result<R>
where
    Error: From<E>,
{
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| Error::BadValue { flag: format!("--threads {threads}"), problem: e.to_string() })?;
    Ok(pool.install(f)?)
}

/// `x` rounded to `digits` decimals.
fn round(x: f64, digits: i32) -> f64 {
    (x * 10f64.powi(digits)).round() / 10f64.powi(digits)
}
