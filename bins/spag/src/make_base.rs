//! `spag make-base`: trains the base model that the loop starts from.

use std::path::PathBuf;

use clap::Args;
use spag_io::{CommandFiles, Contents};
use spag_pipeline::{BaseConfig, make_base};

use spag_cli::{OverwriteArgs, Result, TerminalProgress, exit, threads};

/// Train a base model and its tokenizer on texts of the lexicon, or on games that are played at random.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct MakeBaseArgs {
    /// The configuration, e.g. configs/tiny-base.toml or configs/games-base.toml.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Override a setting, e.g. --set seed=7. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    overwrite: OverwriteArgs,
}

pub(crate) fn run(args: MakeBaseArgs) -> Result<()> {
    let config = BaseConfig::load(&args.config, &args.set)?;
    let files = CommandFiles::default().read("CONFIG", &args.config).read_all("lexicon", &config.lexicon);
    let mut files = files.read_all("prompts", &config.prompts);
    files.write_folder("output_dir", &config.output_dir, &[Contents::Model], args.overwrite.kept())?;
    threads::start()?;
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
