//! `spag data`: converts files of others to training data and lexicons.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use spag_game::WordList;
use spag_io::CommandFiles;
use spag_rewards::{AlpacaTemplate, convert_alpaca, convert_imitation};
use spag_world::{WordChoice, WordNet, write_lexicon};

use spag_cli::{Error, PromptArgs, RecordedGameArgs, Result, SampleReasoningArgs, exit, flags, prompts};

/// Convert files to training data and lexicons.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum DataCommand {
    Imitation(ImitationArgs),
    Alpaca(AlpacaArgs),
    Lexicon(LexiconArgs),
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
    #[command(flatten)]
    game_of_file: RecordedGameArgs,
    #[command(flatten)]
    prompts: PromptArgs,
    #[command(flatten)]
    reasoning: SampleReasoningArgs,
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

/// Make a lexicon for the scripted players from WordNet: nouns of one word with one sense that dominates (the only one, or twice
/// as frequent as all others together in WordNet's tagged texts), of a concrete kind (animals, artifacts, food …), with clues from
/// definitions, hypernyms and parts. Proper names, plurals, offensive words and brands are left out. Prints how many words each
/// rule leaves out.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct LexiconArgs {
    /// Folder with the files data.noun, index.noun, cntlist.rev and noun.exc of WordNet 3.0. Debian's package wordnet-base has
    /// them in the default.
    #[arg(long, value_name = "DIR", default_value = "/usr/share/wordnet")]
    wordnet: PathBuf,
    /// Words to choose from, one a line, the most frequent first [default: the nouns of WordNet's tagged texts].
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// Maximum number of words, from 1 to 20000.
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = flags::within(WordChoice::WORDS))]
    max_words: usize,
    /// Output file for the lexicon (TOML), for the setting `lexicon` of spag run.
    #[arg(long, value_name = "FILE")]
    output_data_path: PathBuf,
}

/// The flags of what is read and what is written.
const INPUT: &str = "--input_data_path";
const OUTPUT: &str = "--output_data_path";

pub(crate) fn run(command: DataCommand) -> Result<()> {
    match command {
        DataCommand::Imitation(args) => {
            let (from, to) = (args.input_data_path, args.output_data_path);
            let files = CommandFiles::default().read(INPUT, &from).read_all("--prompts", args.prompts.file());
            let mut files = files.read_all("--game_data", args.game_of_file.data());
            prompts::write_samples(&mut files, OUTPUT, &to)?;
            let (prompts, note) = args.prompts.load_recorded(&[&from])?;
            note.iter().for_each(exit::note);
            let made_from = prompts::samples_from(&from, &prompts)?;
            let game = args.game_of_file.open(&from, &prompts)?;
            let summary = convert_imitation(&from, &to, &*game, (args.seed, &args.reasoning.settings()))?;
            made_from.write_of(&to)?;
            exit::say(format_args!("{summary}samples in {}", to.display()))
        }
        DataCommand::Alpaca(args) => {
            let files =
                CommandFiles::default().read(INPUT, &args.input_data_path).read_all("--template", &args.template);
            { files }.write_file(OUTPUT, &args.output_data_path)?;
            let template = match &args.template {
                Some(path) => AlpacaTemplate::load(path)?,
                None => AlpacaTemplate::default(),
            };
            let rows = convert_alpaca(&args.input_data_path, &args.output_data_path, &template)?;
            exit::say(format_args!("{rows} rows in {}", args.output_data_path.display()))
        }
        DataCommand::Lexicon(args) => {
            let files = CommandFiles::default().read("--wordnet", &args.wordnet).read_all("--words", &args.words);
            { files }.write_file(OUTPUT, &args.output_data_path)?;
            let words =
                args.words.map(WordList::read).transpose().map_err(Error::of_flag("--words"))?.map(|list| list.words);
            let choice = WordChoice { words, max_words: args.max_words };
            let report = write_lexicon(&WordNet::load(&args.wordnet)?, &choice, &args.output_data_path)?;
            exit::say(format_args!("{report}lexicon in {}", args.output_data_path.display()))
        }
    }
}
