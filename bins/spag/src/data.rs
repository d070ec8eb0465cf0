//! `spag data`: converts files of others to training data.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use spag_game::JudgeKind;
use spag_rewards::{AlpacaTemplate, convert_alpaca, convert_imitation};

use spag_cli::{PromptArgs, Result, exit, prompts};

/// Convert files to training data.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum DataCommand {
    Imitation(ImitationArgs),
    Alpaca(AlpacaArgs),
}

/// Convert games to imitation samples: the utterances of winners, with random plain prompts or as chats.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct ImitationArgs {
    /// Episodes: a JSON list or JSONL.
    #[arg(long, value_name = "FILE")]
    input_data_path: PathBuf,
    /// Output file for the samples: JSONL if its name ends in .jsonl, else a JSON list.
    #[arg(long, value_name = "FILE")]
    output_data_path: PathBuf,
    /// Judge: paper (matches the target word anywhere in a word) or whole-word.
    #[arg(long, value_name = "JUDGE", default_value = "paper")]
    judge: JudgeKind,
    #[command(flatten)]
    prompts: PromptArgs,
    /// Seed of the choice of prompts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Convert Alpaca's instruction, input and output to prompt and target.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct AlpacaArgs {
    /// Alpaca rows: a JSON list or JSONL.
    #[arg(long, value_name = "FILE")]
    input_data_path: PathBuf,
    /// Output file: JSONL if its name ends in .jsonl, else a JSON list.
    #[arg(long, value_name = "FILE")]
    output_data_path: PathBuf,
    /// Templates to use instead of the built-in ones: a JSON object with the keys with_input and without_input and the
    /// placeholders {instruction} and {input}.
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
}

pub(crate) fn run(command: DataCommand) -> Result<()> {
    match command {
        DataCommand::Imitation(args) => {
            let prompts = args.prompts.load()?;
            let (from, to) = (args.input_data_path, args.output_data_path);
            let made_from = prompts::samples_from(&from, &prompts)?;
            let summary = convert_imitation(&from, &to, &prompts, args.judge, args.seed)?;
            made_from.write_of(&to)?;
            exit::say(format_args!("{summary}samples in {}", to.display()))
        }
        DataCommand::Alpaca(args) => {
            let template = match &args.template {
                Some(path) => AlpacaTemplate::load(path)?,
                None => AlpacaTemplate::default(),
            };
            let rows = convert_alpaca(&args.input_data_path, &args.output_data_path, &template)?;
            exit::say(format_args!("{rows} rows in {}", args.output_data_path.display()))
        }
    }
}
