//! The flags and the run of `spag-assign-rewards`.

use std::{ffi::OsString, num::NonZeroUsize, path::PathBuf, thread};

use clap::Parser;
use spag_io::CommandFiles;
use spag_rewards::{AssignJob, CreditConfig, CreditRule, RewardNorm, assign_rewards_in_files};

use spag_cli::{PromptArgs, RecordedGameArgs, Result, SampleReasoningArgs, exit, flags, prompts};

/// Judge episodes and assign rewards to the utterances of winners; add demonstrations.
///
/// Every utterance of a game's winner, up to the deciding one, becomes a sample with a reward that grows towards the
/// end of the game. Ties and broken rules give no samples. With --credit signed the loser's utterances, and those of ties,
/// become samples too. Prints a summary of outcomes and weights.
#[derive(Debug, Parser)]
#[command(name = "spag-assign-rewards", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct AssignArgs {
    /// Episodes: a JSON list or JSONL.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    input_data_path: PathBuf,
    /// Output file for the samples: JSONL if its name ends in .jsonl, else a JSON list.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    output_data_path: PathBuf,
    /// Demonstrations to append: rows with query and target, or prompt and answer.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    sft_data_path: Option<PathBuf>,
    /// Output file for the outcome and number of utterances of each episode (JSONL).
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    outcomes_path: Option<PathBuf>,
    /// Discount: the reward of an utterance is X times that of the winner's next one (from 0.000001 to
    /// 1000000).
    #[arg(long, value_name = "X", default_value_t = CreditConfig::default().decay_weight, value_parser = flags::within(CreditConfig::DECAY_WEIGHT), help_heading = "Credit")]
    decay_weight: f64,
    /// Normalization of a winner's rewards: sum (they sum to 1) or mean (they average 1).
    #[arg(long, value_name = "NORM", default_value_t = RewardNorm::default(), help_heading = "Credit")]
    reward_norm: RewardNorm,
    /// Rule: winner (the winner's utterances alone, the paper's), signed (also the loser's with negative rewards, less the
    /// mean of each seat) or drawn (as winner, for a player of each decided game that is drawn by the seed: a control).
    #[arg(long, value_name = "RULE", default_value_t = CreditRule::default(), help_heading = "Credit")]
    credit: CreditRule,
    #[command(flatten, next_help_heading = "Credit")]
    game_of_file: RecordedGameArgs,
    #[command(flatten)]
    prompts: PromptArgs,
    #[command(flatten)]
    reasoning: SampleReasoningArgs,
    /// Seed of the choice of prompts.
    #[arg(long, value_name = "N", default_value_t = CreditConfig::default().seed, help_heading = "Prompts")]
    seed: u64,
    /// Number of threads, at most 4096 [default: all cores]. The files do not depend on it.
    #[arg(long, value_name = "N", value_parser = flags::within(flags::THREADS), help_heading = "Speed")]
    threads: Option<usize>,
}

/// Runs the program on `args`, which start with its name.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let args: AssignArgs = flags::parse(args)?;
    // The reference's scripts pass an empty name for no file.
    let sft = args.sft_data_path.filter(|path| !path.as_os_str().is_empty());
    let job =
        AssignJob { input: args.input_data_path, sft, output: args.output_data_path, outcomes: args.outcomes_path };
    let files = CommandFiles::default().read("--input_data_path", &job.input).read_all("--sft_data_path", &job.sft);
    let mut files = files.read_all("--prompts", args.prompts.file()).read_all("--game_data", args.game_of_file.data());
    prompts::write_samples(&mut files, "--output_data_path", &job.output)?;
    job.outcomes.iter().try_for_each(|path| files.write_file("--outcomes_path", path))?;
    let (prompts, note) = args.prompts.load_recorded(&[&job.input])?;
    note.iter().for_each(exit::note);
    let (decay_weight, norm, credit) = (args.decay_weight, args.reward_norm, args.credit);
    let config = CreditConfig { decay_weight, norm, credit, seed: args.seed, reasoning: args.reasoning.settings() };
    let game = args.game_of_file.open(&job.input, &prompts)?;
    let threads = args.threads.and_then(NonZeroUsize::new);
    let threads = threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let made_from = prompts::samples_from(&job.input, &prompts)?;
    let summary = assign_rewards_in_files(&job, &*game, &config, threads)?;
    made_from.write_of(&job.output)?;
    exit::say(format_args!("{summary}{} written to {}", "samples", job.output.display()))
}
