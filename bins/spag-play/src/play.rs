//! The flags and the run of `spag-play`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Parser;
use spag_dist::LaunchEnv;
use spag_game::{AfterDecision, EpisodeReader, Game, Labels, PlayConfig, PromptSet, SEATS};
use spag_io::Progress;
use spag_run::{PlayedGames, Provenance};
use spag_selfplay::{
    EndpointKeys, Finished, JobFiles, OpenJob, PlayJob, PlayerPair, PlayerSpec, Ranks, games_per_word, limits,
};

use crate::{
    context::check_context,
    error::PlayError,
    observer::{Interrupts, PlayObserver},
};
use spag_cli::{
    Error, GameArgs, LineEvery, PlayerArgs, PlayerParser, Result, TerminalProgress, TokenSource, checkpoint_files,
    exit,
    flags::{self, Task},
    threads, write_games,
};

/// Play Adversarial Taboo on every target word, or another game, and record the games.
///
/// Takes the flags of the reference's playing script, in snake_case or kebab-case. Finished games are appended to
/// <prefix>_<task>_<suffix>_rank<R>.jsonl in --output_dir. The same command resumes a stopped run, with any number of
/// ranks. At the end all games are written to <prefix>_<task>_<suffix>_results.json in the order of the words, and
/// statistics to <prefix>_<task>_<suffix>_summary.json. Exit codes: 0 all games were played, 1 some failed, 2 bad input,
/// 130 or 143 stopped by SIGINT (Ctrl-C) or SIGTERM. A second Ctrl-C stops at once.
#[derive(Debug, Parser)]
#[command(name = "spag-play", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct PlayArgs {
    /// The attacker: a checkpoint (a Hugging Face folder or a GGUF file) or an endpoint (openai:http://HOST:PORT/v1#MODEL,
    /// with the key in OPENAI_API_KEY; with its own in another variable: openai:NAME_API_KEY@http://…; several servers of
    /// one model: openai:http://A:8000/v1,http://B:8000/v1#MODEL).
    #[arg(long, value_name = "PLAYER", value_parser = PlayerParser, help_heading = "Players")]
    attacker_model_name_or_path: PlayerSpec,
    /// The defender: a checkpoint or an endpoint. The same one as the attacker means self-play.
    #[arg(long, value_name = "PLAYER", value_parser = PlayerParser, help_heading = "Players")]
    defender_model_name_or_path: PlayerSpec,
    /// LoRA adapter of the attacker, a checkpoint: a folder in PEFT's format.
    #[arg(long, value_name = "DIR", help_heading = "Players")]
    attacker_adapter: Option<PathBuf>,
    /// LoRA adapter of the defender, as that of the attacker.
    #[arg(long, value_name = "DIR", help_heading = "Players")]
    defender_adapter: Option<PathBuf>,
    #[command(flatten)]
    players: PlayerArgs,

    /// Target words, one per line; or the file that another game needs.
    #[arg(long, value_name = "FILE", help_heading = "Games")]
    data_path: Option<PathBuf>,
    /// Number of games per word; of all games if they have no words. A run has at most 1000000 games.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = flags::within(limits::GAMES), help_heading = "Games")]
    games_per_word: usize,
    /// Stop games exactly where the reference does: when the defender says "I know the word" in any case, decided or not,
    /// and otherwise at the last turn: True or False. By default a game stops when it is decided.
    #[arg(long, value_name = "BOOL", default_value = "False", num_args = 0..=1, default_missing_value = "True", value_parser = flags::truth, action = clap::ArgAction::Set, help_heading = "Games")]
    play_on: bool,
    /// Record the tokens of each utterance with their log-probabilities under the model and under the sampler, as the key
    /// `generation`: True or False.
    #[arg(long, value_name = "BOOL", default_value = "False", num_args = 0..=1, default_missing_value = "True", value_parser = flags::truth, action = clap::ArgAction::Set, help_heading = "Games")]
    record_tokens: bool,
    #[command(flatten)]
    games: GameArgs,

    /// Output folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    output_dir: PathBuf,
    /// First part of the names of output files.
    #[arg(long, value_name = "NAME", default_value = "llama", help_heading = "Output")]
    model_prefix: String,
    /// Last part of the names of output files [default: the name of the word list].
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    data_suffix: Option<String>,
    /// Number of games between lines of progress in a log [default: a line every ten seconds].
    #[arg(long, value_name = "N", value_parser = flags::within(limits::GAMES), help_heading = "Output")]
    logging_steps: Option<usize>,
}

/// Runs the program on `args`, which start with its name.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let (mut args, notes) = flags::parse_reference::<PlayArgs>(Task::Playing, args)?;
    args.give_adapters()?;
    let env = LaunchEnv::detect()?;
    // The notes are the same on all ranks.
    if env.rank == 0 {
        notes.print();
    }
    play(&args, &env)
}

fn play(args: &PlayArgs, env: &LaunchEnv) -> Result<()> {
    check_folder(args)?;
    let interrupts = Interrupts::listen()?;
    threads::start()?;
    let list = args.games.rules.items(args.data_path.as_deref()).map_err(Error::of_flag("--data_path"))?;
    if let Some(path) = args.data_path.as_ref().filter(|_| env.rank == 0 && !list.is_plain()) {
        exit::note(format_args!("note: {}: {list}", path.display()));
    }
    let words = list.words;
    let longest = words.iter().max_by_key(|word| word.len()).cloned().unwrap_or_default();
    limits::total_games(words.len(), args.games_per_word)
        .map_err(|problem| Error::BadValue { flag: format!("--games_per_word {}", args.games_per_word), problem })?;
    let (prompts, recorded) = args.games.prompts.load_recorded(&args.folders())?;
    let specs = args.specs();
    let keys = EndpointKeys::from_env(specs)?;
    if env.rank == 0 {
        keys.notes().iter().for_each(|note| exit::note(format_args!("note: {note}")));
    }
    let made = made_from(args, &words, &prompts);
    if env.rank == 0 {
        recorded.iter().for_each(exit::note);
        // Greedy games are the same with any seed.
        let drawn = args.players.sampling.settings().temperature > 0.0;
        spag_cli::prompts::check_models(&args.folders(), &prompts, made.games.first().filter(|_| drawn))?;
    }
    let game = args.games.rules.open(args.after_decision(), &prompts, args.data_path.as_deref())?;
    let mut job = job(args, &*game, &words, &prompts, env)?.open()?;
    let total = job.total();
    if env.rank == 0 && job.recorded() > 0 {
        let (done, folder) = (job.recorded(), args.output_dir.display());
        exit::note(format_args!("note: {done} of {total} games are in {folder} already; only the others are played"));
    }
    if job.recorded() < total {
        let mut players = args.players.open_pair(specs, &keys, (env.local_size, prompts.format()))?;
        let max_length = args.players.sampling.max_length();
        let notes = check_context(&players, &*game, &longest, args.games.max_turns(), max_length)?;
        if env.rank == 0 {
            notes.iter().for_each(|note| exit::note(format_args!("note: {note}")));
        }
        play_missing(args, env, &mut job, &mut players, &interrupts).inspect_err(|_| {
            let done = job.recorded();
            exit::note(format_args!("note: {done} of {total} games are played; the same command plays the others"));
        })?;
    }
    let run = job.run_stats();
    if let Some(signal) = interrupts.caught().filter(|_| run.played.stopped) {
        let done = job.recorded();
        // The signal decides the exit code, whatever becomes of the output.
        let _ = exit::say(format_args!("{done} of {total} games so far\n{}\n{run}", job.stats()));
        let rest = format!("{done} of {total} games are played, the same command plays the others");
        return Err(Error::Stopped { signal, message: format!("stopped by {signal}; {rest}") });
    }
    match job.finish(&run)? {
        Finished::ByRankZero => exit::say(&run),
        Finished::Written { results, stats, missing, failed: reasons, lost } => {
            made.write_of(&results)?;
            exit::say(format_args!("{} games in {}\n{stats}\n{run}", stats.counts().games(), results.display()))?;
            match lost.into_iter().next() {
                _ if missing > 0 => {
                    let first = first_failed(&reasons);
                    Err(PlayError::GamesFailed { missing, total, reasons, first }.into())
                }
                Some(lost) => Err(PlayError::LostRank { lost, results }.into()),
                None => Ok(()),
            }
        }
    }
}

fn play_missing(
    args: &PlayArgs,
    env: &LaunchEnv,
    job: &mut OpenJob<'_>,
    players: &mut PlayerPair,
    interrupts: &Interrupts,
) -> Result<()> {
    let every = args.logging_steps.map_or(LineEvery::Seconds(10), |games| LineEvery::Units(games as u64));
    let (what, mut progress) = match env.world_size {
        1 => ("games".to_owned(), TerminalProgress::new(every)),
        _ => (format!("rank {}: games", env.rank), TerminalProgress::log(every)),
    };
    progress.begin(&what, job.missing().len() as u64);
    let mut observer = PlayObserver { progress: &mut progress, interrupts, started: Instant::now() };
    job.play_pair(players, &mut observer)?;
    progress.end();
    Ok(())
}

/// The first game in a file of failed games, with its word and the reason. `None` if there is no such file: other ranks
/// have their own.
fn first_failed(file: &Path) -> Option<String> {
    let (_, episode) = EpisodeReader::open(file).ok()?.next()?.ok()?;
    let (game, reason) = (episode.extra.get("game")?.as_u64()?, episode.extra.get("reason")?.as_str()?);
    let reason = spag_io::abridge(reason, 500);
    Some(format!("game {game} on \"{}\": {}", spag_io::quote(&episode.item), spag_io::escape(&reason)))
}

/// Checks that the output folder holds nothing but games, and no player.
fn check_folder(args: &PlayArgs) -> Result<()> {
    let files = checkpoint_files("a player", args.specs()).read_all("--data_path", &args.data_path);
    let mut files = files.read_all("--prompts", args.games.prompts.file());
    write_games(&mut files, &args.output_dir)
}

/// What the games are made from, for the record beside the results.
fn made_from(args: &PlayArgs, words: &[String], prompts: &PromptSet) -> Provenance {
    let games = PlayedGames::new(args.players.sampling.seed, words);
    Provenance { wordings: vec![prompts.wordings().clone()], games: vec![games] }
}

/// The job that the flags describe.
fn job<'g>(
    args: &PlayArgs,
    game: &'g dyn Game,
    words: &[String],
    prompts: &PromptSet,
    env: &LaunchEnv,
) -> Result<PlayJob<'g>> {
    let sampling = &args.players.sampling;
    Ok(PlayJob {
        game,
        games: games_per_word(words, args.games_per_word, args.games.max_turns(), sampling.seed)?,
        players: players(args, game.labels(), prompts)?,
        play: PlayConfig { tokens: args.record_tokens.into(), ..args.games.play_config() },
        files: JobFiles::with_results(&args.output_dir, stem(args)),
        ranks: Ranks::Launched(env.clone()),
    })
}

/// The description of players and settings in records. A run does not resume a record with another description.
fn players(args: &PlayArgs, labels: &Labels, prompts: &PromptSet) -> Result<String> {
    let seats = labels.seats.into_iter().zip(args.specs());
    let seats = seats.map(|(seat, spec)| Ok(format!("{seat}={}", args.players.describe(spec)?)));
    let seats = seats.collect::<Result<Vec<_>>>()?.join("; ");
    let played_on = match args.after_decision() {
        AfterDecision::Stop => "",
        AfterDecision::PlayOn => "; play_on",
        AfterDecision::UntilGuess => "; play_on=until a guess",
    };
    let source = TokenSource::of(args.specs());
    let sampling = args.players.sampling.describe(source);
    let games = args.games.describe(source, prompts);
    let reasoning = args.players.describe_reasoning();
    Ok(format!("{seats}; {games}; {sampling}{reasoning}{played_on}"))
}

/// The common first part of the names of the output files.
fn stem(args: &PlayArgs) -> String {
    let words = || {
        let file = args.data_path.as_deref().and_then(Path::file_stem);
        file.map_or_else(|| args.games.rules.game.clone(), |name| name.to_string_lossy().into_owned())
    };
    let suffix = args.data_suffix.clone().unwrap_or_else(words);
    format!("{}_{}_{suffix}", args.model_prefix, args.players.sampling.task_type.name())
}

impl PlayArgs {
    /// The players, in the order of the seats.
    fn specs(&self) -> [&PlayerSpec; SEATS] {
        [&self.attacker_model_name_or_path, &self.defender_model_name_or_path]
    }

    /// The folders of the checkpoints that play.
    fn folders(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> =
            self.specs().into_iter().filter_map(|player| Some(player.checkpoint()?.0)).collect();
        folders.dedup();
        folders
    }

    /// Gives the players their adapters.
    fn give_adapters(&mut self) -> Result<()> {
        let seats = [
            ("attacker", &mut self.attacker_model_name_or_path, &self.attacker_adapter),
            ("defender", &mut self.defender_model_name_or_path, &self.defender_adapter),
        ];
        for (seat, player, adapter) in seats {
            let Some(folder) = adapter else { continue };
            *player = player.with_adapter(folder.clone()).ok_or_else(|| Error::BadValue {
                flag: format!("--{seat}_adapter {}", folder.display()),
                problem: format!("the {seat} is an endpoint, which has its own weights"),
            })?;
        }
        Ok(())
    }

    fn after_decision(&self) -> AfterDecision {
        if self.play_on { AfterDecision::UntilGuess } else { AfterDecision::Stop }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn spag_train_accepts_every_flag() {
        let declared = flags::list_flags(&PlayArgs::command());
        spag_tests::assert_written("crates/spag-cli/src/flags/of_spag_play.txt", &declared, "SPAG_WRITE_FLAGS");
    }
}
