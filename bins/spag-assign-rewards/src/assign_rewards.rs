//! `spag-assign-rewards`: episodes of self-play into rewarded samples.

use std::{ffi::OsString, num::NonZeroUsize, path::PathBuf, thread};

use clap::Parser;
use spag_game::JudgeKind;
use spag_rewards::{AssignJob, CreditConfig, RewardNorm, assign_rewards_in_files};

use spag_cli::{Result, exit, flags, prompts};

/// Judges episodes, credits the winners, and mixes in demonstrations.
///
/// Every utterance of a game's winner, up to the deciding one, becomes a sample with a reward that grows towards the
/// end of the game. Ties and broken rules give none. A summary of outcomes and weights is printed.
#[derive(Debug, Parser)]
#[command(name = "spag-assign-rewards", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct AssignArgs {
    /// Episodes: a JSON list or JSONL.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    input_data_path: PathBuf,
    /// Where the samples go: JSONL if the name ends in .jsonl, else a JSON list.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    output_data_path: PathBuf,
    /// Demonstrations to add after the samples: rows of query/target or prompt/answer.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    sft_data_path: Option<PathBuf>,
    /// Where to write each episode's outcome and number of utterances, one JSON object a line.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    outcomes_path: Option<PathBuf>,
    /// An utterance gets this many times the reward of the winner's next one.
    #[arg(long, value_name = "X", default_value_t = CreditConfig::default().decay_weight, value_parser = flags::positive, help_heading = "Credit")]
    decay_weight: f64,
    /// A winner's rewards sum to 1, or average 1: sum or mean.
    #[arg(long, value_name = "NORM", default_value_t = RewardNorm::default(), help_heading = "Credit")]
    reward_norm: RewardNorm,
    /// Who decides: paper (matches anywhere in a word) or whole-word.
    #[arg(long, value_name = "JUDGE", default_value = "paper", help_heading = "Credit")]
    judge: JudgeKind,
    /// Wordings to use in place of the built-in ones.
    #[arg(long, value_name = "FILE", help_heading = "Wording")]
    prompts: Option<PathBuf>,
    /// Seed of the choice among wordings.
    #[arg(long, value_name = "N", default_value_t = CreditConfig::default().seed, help_heading = "Wording")]
    seed: u64,
    /// Threads that judge and write samples; those of the machine's cores if not given. The files do not depend on it.
    #[arg(long, value_name = "N", help_heading = "Speed")]
    threads: Option<NonZeroUsize>,
}

/// Runs the program on `args`, which start with its name.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let args: AssignArgs = flags::parse(args)?;
    let prompts = prompts::load(args.prompts.as_deref())?;
    // The reference's scripts pass an empty name for "none".
    let sft = args.sft_data_path.filter(|path| !path.as_os_str().is_empty());
    let job =
        AssignJob { input: args.input_data_path, sft, output: args.output_data_path, outcomes: args.outcomes_path };
    let config =
        CreditConfig { decay_weight: args.decay_weight, norm: args.reward_norm, judge: args.judge, seed: args.seed };
    let threads = args.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let summary = assign_rewards_in_files(&job, &prompts, &config, threads)?;
    exit::say(format_args!("{summary}{} written to {}", "samples", job.output.display()))
}
