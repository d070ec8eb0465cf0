//! `spag make-base`: the base model that the loop starts from, made again.

use std::path::PathBuf;

use clap::Args;
use spag_pipeline::{BaseConfig, make_base};

use spag_cli::{Result, TerminalProgress, exit};

/// Make a base model, tokenizer included, from the lexicon and a seed.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct MakeBaseArgs {
    /// The configuration, e.g. configs/base.toml.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Override a setting, e.g. --set seed=7; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn run(args: MakeBaseArgs) -> Result<()> {
    let config = BaseConfig::load(&args.config, &args.set)?;
    let report = make_base(&config, &mut TerminalProgress::default())?;
    exit::say(format_args!(
        "{} parameters, {} pieces, {} documents, {} tokens in {:.0} s, loss {:.3} -> {:.3}\nmodel in {}",
        report.parameters,
        report.pieces,
        report.documents,
        report.tokens,
        report.train_seconds,
        report.first_loss,
        report.last_loss,
        config.output_dir.display(),
    ))
}
