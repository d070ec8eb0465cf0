//! `spag compare`: finished runs side by side.

use std::path::PathBuf;

use clap::Args;
use spag_cli::{Result, exit};
use spag_io::{CommandFiles, write_atomically};
use spag_pipeline::{arms_document, arms_warnings, read_arms, render_arms};

/// Compare finished runs: win rates and scores in both seats, held-out words and benchmarks, with 95% intervals.
///
/// Runs whose settings differ in the seed only are one arm, whose games are pooled. The last columns compare each arm with the
/// first one seed by seed, by an exact test of signs.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct CompareArgs {
    /// Folders of runs, the first arm first.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Also write a page with curves over games and seconds to this file.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

pub(crate) fn run(args: CompareArgs) -> Result<()> {
    let mut files = CommandFiles::default().read_all("RUN", &args.runs);
    args.page.iter().try_for_each(|page| files.write_file("--page", page))?;
    let arms = read_arms(&args.runs)?;
    if let Some(page) = &args.page {
        write_atomically(page, arms_document(&arms).html())?;
    }
    for warning in arms_warnings(&arms) {
        exit::say(format_args!("Warning: {warning}\n"))?;
    }
    exit::say(format_args!("{}", render_arms(&arms).trim_end()))
}
