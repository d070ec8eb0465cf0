//! `spag-play`: two language models, or one against itself, on a list of target words.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Parser;
use spag_game::{
    GameRecord, GameSpec, JudgeKind, PlayConfig, PromptSet, Seats, game_seed, judge_episode, play_games, read_words,
    write_json_atomically,
};
use spag_selfplay::PlayerSpec;
use spag_train::Progress;

use crate::{
    Error, Result, exit,
    flags::{self, Task},
    launch,
    players::{AnyPlayer, PlayerArgs},
    playing::{Recording, Tally},
    programs::train::TrainArgs,
    progress::{LineEvery, TerminalProgress},
    prompts,
};

/// Plays Adversarial Taboo on every target word, and keeps all games.
///
/// Takes the flags of the reference's playing script, in snake_case or kebab-case. Finished games are appended to
/// <prefix>_<task>_<suffix>_rank0.jsonl in --output_dir; a stopped run goes on with the same command. At the end all are
/// written to <prefix>_<task>_<suffix>_results.json in the order of the words.
#[derive(Debug, Parser)]
#[command(name = "spag-play", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct PlayArgs {
    /// The attacker: a checkpoint (a Hugging Face folder) or an endpoint (openai:http://HOST:PORT/v1#MODEL; the key
    /// comes from OPENAI_API_KEY).
    #[arg(long, value_name = "PLAYER", help_heading = "Players")]
    attacker_model_name_or_path: PlayerSpec,
    /// The defender, given likewise; the same one means self-play.
    #[arg(long, value_name = "PLAYER", help_heading = "Players")]
    defender_model_name_or_path: PlayerSpec,
    #[command(flatten)]
    players: PlayerArgs,

    /// Target words, one a line.
    #[arg(long, value_name = "FILE", help_heading = "Games")]
    data_path: PathBuf,
    /// Turns of a game at most; a turn is one utterance of each player.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = flags::count, help_heading = "Games")]
    taboo_max_turns: usize,
    /// Games on every word.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = flags::count, help_heading = "Games")]
    games_per_word: usize,
    /// So many games that fail in a row, for instance since an endpoint is gone, end the run.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = flags::count, help_heading = "Games")]
    max_failed_in_a_row: usize,
    /// Who decides: paper (matches anywhere in a word) or whole-word.
    #[arg(long, value_name = "JUDGE", default_value = "paper", help_heading = "Games")]
    judge: JudgeKind,
    /// Wordings to use in place of the built-in ones.
    #[arg(long, value_name = "FILE", help_heading = "Games")]
    prompts: Option<PathBuf>,

    /// Folder of the results.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    output_dir: PathBuf,
    /// First part of the results' file names.
    #[arg(long, value_name = "NAME", default_value = "llama", help_heading = "Output")]
    model_prefix: String,
    /// Last part of the results' file names; by default the name of the word list.
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    data_suffix: Option<String>,
    /// Games between two lines of progress in a log; by default there is one every ten seconds.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Output")]
    logging_steps: Option<usize>,
}

/// Runs the program on the arguments of this process.
pub fn main() -> ExitCode {
    exit::run(|| run(std::env::args_os()))
}

fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let (args, notes) = flags::parse_reference::<PlayArgs, TrainArgs>(Task::Playing, args)?;
    launch::require_single_process("plays")?;
    notes.say();
    play(&args)
}

fn play(args: &PlayArgs) -> Result<()> {
    let specs = specs(args)?;
    let prompts = prompts::load(args.prompts.as_deref())?;
    let stem = stem(args);
    std::fs::create_dir_all(&args.output_dir).map_err(|source| Error::Io { path: args.output_dir.clone(), source })?;
    let path = args.output_dir.join(format!("{stem}_rank0.jsonl"));
    let mut record = GameRecord::open(path, specs, players(args)?)?;
    let mut tally = Tally::default();
    for episode in record.episodes() {
        tally.add(&judge_episode(args.judge, episode)?);
    }
    let missing = record.missing();
    if missing.len() < record.total() {
        let (done, total, path) = (record.total() - missing.len(), record.total(), record.path().display());
        exit::note(format_args!("note: {done} of {total} games are in {path} already; delete it to play them again"));
    }
    if !missing.is_empty() {
        play_missing(args, &prompts, missing, &mut record, &mut tally)?;
    }
    let results = args.output_dir.join(format!("{stem}_results.json"));
    write_json_atomically(&results, &record.into_episodes())?;
    exit::say(format_args!("{} games in {}\n{tally}", tally.games(), results.display()))
}

fn play_missing(
    args: &PlayArgs,
    prompts: &PromptSet,
    missing: Vec<GameSpec>,
    record: &mut GameRecord,
    tally: &mut Tally,
) -> Result<()> {
    let mut attacker = args.players.open(&args.attacker_model_name_or_path)?;
    let same = args.attacker_model_name_or_path == args.defender_model_name_or_path;
    let mut defender = match same {
        true => None,
        false => Some(args.players.open(&args.defender_model_name_or_path)?),
    };
    let games_in_flight = defender.iter().fold(attacker.games_at_a_time(), |games, d| games.min(d.games_at_a_time()));
    let seats = match &mut defender {
        None => Seats::SelfPlay(&mut attacker),
        Some(defender) => Seats::Versus { attacker: &mut attacker, defender },
    };
    let config = PlayConfig {
        judge: args.judge,
        games_in_flight,
        max_failed_in_a_row: args.max_failed_in_a_row,
        ..PlayConfig::default()
    };
    let every = args.logging_steps.map_or(LineEvery::Seconds(10), |games| LineEvery::Units(games as u64));
    let mut progress = TerminalProgress::with_lines(every);
    progress.begin("play", missing.len() as u64);
    let mut recording = Recording::new(record, tally, &mut progress);
    play_games(missing, seats, prompts, &config, &mut recording)?;
    let failed = recording.failed();
    progress.end();
    if failed > 0 {
        let why = record.failed_path().display();
        exit::note(format_args!("note: {failed} games failed; {why} says why, the same command plays them again"));
    }
    let engines = std::iter::once(&attacker).chain(&defender).filter_map(AnyPlayer::generation);
    let cut: u64 = engines.map(|stats| stats.cut_prompts).sum();
    if cut > 0 {
        exit::note(format_args!("note: {cut} prompts were too long for --max_length and lost their beginning"));
    }
    Ok(())
}

/// Every game of the run, in the order of the words. A game's seed depends on its number alone.
fn specs(args: &PlayArgs) -> Result<Vec<GameSpec>> {
    let words = read_words(&args.data_path)?;
    let games = words.into_iter().flat_map(|word| std::iter::repeat_n(word, args.games_per_word));
    Ok(games
        .enumerate()
        .map(|(game, target_word)| GameSpec {
            game,
            target_word,
            max_turns: args.taboo_max_turns,
            seed: game_seed(args.players.sampling.seed, game),
        })
        .collect())
}

/// Who plays and how, as the record notes it: games of others are not gone on with.
fn players(args: &PlayArgs) -> Result<String> {
    let attacker = args.players.describe(&args.attacker_model_name_or_path)?;
    let defender = args.players.describe(&args.defender_model_name_or_path)?;
    Ok(format!("attacker={attacker}; defender={defender}; judge={}; {}", args.judge, args.players.sampling.describe()))
}

/// What the names of the run's files begin with.
fn stem(args: &PlayArgs) -> String {
    let words = || args.data_path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let suffix = args.data_suffix.clone().unwrap_or_else(words);
    format!("{}_{}_{suffix}", args.model_prefix, args.players.sampling.task_type.name())
}
