//! `spag compare`: finished runs side by side.

use std::path::PathBuf;

use clap::Args;
use spag_pipeline::{read_arms, render_arms};

use spag_cli::{Result, exit};

/// Compare finished runs: win rates in both seats, held-out words and benchmarks, with 95% intervals.
///
/// Runs whose settings differ in the seed only are one arm, whose games are pooled. The last columns compare each arm with the
/// first one seed by seed, by an exact test of signs.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct CompareArgs {
    /// Folders of runs, the first arm first.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
}

pub(crate) fn run(args: CompareArgs) -> Result<()> {
    exit::say(format_args!("{}", render_arms(&read_arms(&args.runs)?).trim_end()))
}
