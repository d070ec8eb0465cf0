//! `spag run`: the whole loop.

use std::path::PathBuf;

use clap::Args;
use spag_pipeline::{RunConfig, render_text};

use crate::{Result, exit, launch, progress::TerminalProgress};

/// Run the whole loop of a configuration: base, imitation, self-play and training in turn, evaluation, report.
///
/// Stages that are finished are not run again; interrupted anywhere, the same command goes on.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct RunArgs {
    /// The configuration, e.g. configs/tiny.toml.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Override a setting, e.g. --set train.learning_rate=1e-3; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn run(args: RunArgs) -> Result<()> {
    launch::require_single_process("trains")?;
    let config = RunConfig::load(&args.config, &args.set)?;
    let report = spag_pipeline::run(&config, &mut TerminalProgress::new())?;
    exit::say(render_text(&report).trim_end())
}
