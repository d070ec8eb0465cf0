//! `spag arena`: every two of several players play each other in both roles; prints win rates and ratings.

mod bar;
mod games;
mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use spag_dist::{LaunchEnv, Launcher};
use spag_game::{PromptSet, Tally};
use spag_io::{Progress, write_atomically};
use spag_model::checkpoint::load_config;
use spag_selfplay::{
    EndpointKeys, Finished, JobFiles, OpenJob, PlayJob, PlayerSpec, Ranks,
    arena::{
        ArenaSettings, ArenaTable, NamedPlayer, Pairing, SelfPlay, check_files, check_players, pairings, player_index,
        record_file, render_csv, render_json, render_text,
    },
    limits,
};

use bar::{Bar, PairingBar};
use games::{ArenaGame, Asked};
use spag_cli::adapter_args::NamedFolder;
use spag_cli::{
    Error, GameArgs, PlayerArgs, Result, TerminalProgress, TokenSource, checkpoint_files, exit, flags, threads,
    write_games,
};
use table::{Table, Work, in_league};

/// Rate several players: every two play each other in both roles, on the same words and seeds.
///
/// Finished games are appended to <attacker>_vs_<defender>.jsonl in --output_dir. The same command resumes a stopped
/// arena. Prints win rates with Wilson intervals and Elo ratings (a Bradley-Terry model with an advantage of the attacker)
/// with 95% intervals, and writes them to arena.json and arena.csv. Each of several games (--game A,B or --config) has a table
/// of its own, and its files in a folder of its name.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct ArenaArgs {
    /// Players with unique names. PLAYER is a checkpoint (a Hugging Face folder or a GGUF file) or an endpoint
    /// (openai:http://HOST:PORT/v1#MODEL, with the key in OPENAI_API_KEY; with its own in another
    /// variable: openai:NAME_API_KEY@http://…; several servers of one model:
    /// openai:http://A:8000/v1,http://B:8000/v1#MODEL).
    #[arg(long, value_name = "NAME=PLAYER", num_args = 1.., required = true, help_heading = "Players")]
    players: Vec<String>,
    /// LoRA adapter of the player NAME, a checkpoint: a folder in PEFT's format. May be given several times. Players of one
    /// checkpoint with different adapters share an engine, which has the checkpoint's weights once.
    #[arg(long, value_name = "NAME=DIR", help_heading = "Players")]
    adapter: Vec<NamedFolder>,
    /// Each player also plays against itself.
    #[arg(long, help_heading = "Players")]
    with_self: bool,
    /// The player with rating 1500 [default: the mean rating is 1500].
    #[arg(long, value_name = "NAME", help_heading = "Players")]
    anchor: Option<String>,
    #[command(flatten)]
    playing: PlayerArgs,

    /// Target words, one per line; or the file that another game needs.
    #[arg(long, value_name = "FILE", help_heading = "Games")]
    words: Option<PathBuf>,
    /// Number of games of each pair of players, per assignment of roles, at most 1000000.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = flags::within(limits::GAMES), help_heading = "Games")]
    games: usize,
    /// The configuration of a run whose games are rated, [[games]] or game, in place of --game. Each has --games games.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["game", "game_options"], help_heading = "Games")]
    config: Option<PathBuf>,
    #[command(flatten)]
    rules: GameArgs,

    /// Folder of the games and results.
    #[arg(long, value_name = "DIR", default_value = "arena", help_heading = "Output")]
    output_dir: PathBuf,
}

pub(crate) fn run(args: ArenaArgs) -> Result<()> {
    require_single_process(&LaunchEnv::detect()?)?;
    threads::start()?;
    let arena = Arena::new(&args)?;
    let sampling = &args.playing.sampling;
    let sampling = sampling.describe(TokenSource::of(arena.players.iter().map(|player| &player.player)));
    for (game, results) in arena.games.iter().zip(arena.play()?) {
        let settings = ArenaSettings {
            games: args.games,
            max_turns: game.max_turns,
            seed: args.playing.sampling.seed,
            rules: game.rules.clone(),
            sampling: sampling.clone(),
            anchor: args.anchor.clone(),
        };
        let table = ArenaTable::new(settings, &arena.players, &results)?;
        let folder = game.output_dir(&args.output_dir);
        write(&folder, "arena.json", &render_json(&table)?)?;
        write(&folder, "arena.csv", &render_csv(&table)?)?;
        let title = game.folder.as_ref().map(|name| format!("── {name} ──\n\n")).unwrap_or_default();
        exit::say(format_args!(
            "{title}{}\ngames, arena.json and arena.csv in {}",
            render_text(&table),
            folder.display()
        ))?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    Ok(write_atomically(folder.join(name), text.as_bytes())?)
}

/// The most players: each two play each other.
const MAX_PLAYERS: usize = 100;

/// A validated arena.
struct Arena<'a> {
    args: &'a ArenaArgs,
    players: Vec<NamedPlayer>,
    /// The description of each player in records.
    described: Vec<String>,
    pairings: Vec<Pairing>,
    games: Vec<ArenaGame>,
    prompts: PromptSet,
    keys: EndpointKeys,
}

impl<'a> Arena<'a> {
    fn new(args: &'a ArenaArgs) -> Result<Self> {
        if args.players.len() > MAX_PLAYERS {
            let problem = format!("{} players; an arena has at most {MAX_PLAYERS}", args.players.len());
            return Err(Error::BadValue { flag: "--players".into(), problem });
        }
        let mut players = args.players.iter().map(|text| text.parse()).collect::<Result<Vec<NamedPlayer>, _>>()?;
        check_players(&players)?;
        give_adapters(&mut players, &args.adapter)?;
        if let Some(name) = &args.anchor {
            player_index(&players, name)?;
        }
        let self_play = if args.with_self { SelfPlay::With } else { SelfPlay::Without };
        let pairings = pairings(players.len(), self_play);
        check_files(&players, &pairings)?;
        let keys = EndpointKeys::from_env(players.iter().map(|player| &player.player))?;
        keys.notes().iter().for_each(|note| exit::note(format_args!("note: {note}")));
        let folders = players.iter().filter_map(|player| Some(player.player.checkpoint()?.0));
        let prompts = args.rules.prompts.load_for(&folders.collect::<Vec<_>>())?;
        let described =
            players.iter().map(|player| describe(&args.playing, &players, player)).collect::<Result<_>>()?;
        let asked = Asked {
            args: &args.rules,
            config: args.config.as_deref(),
            data: args.words.as_deref(),
            count: args.games,
            seed: args.playing.sampling.seed,
        };
        let games = ArenaGame::all(&asked, &prompts)?;
        check_folders(args, &players, &games)?;
        Ok(Self { args, players, described, pairings, games, prompts, keys })
    }

    /// Opens the games of a pairing.
    fn open<'g>(&self, game: &'g ArenaGame, pairing: Pairing) -> Result<OpenJob<'g>> {
        let path = game.output_dir(&self.args.output_dir).join(record_file(&self.players, pairing));
        let who = |player: usize| self.described.get(player).map_or("", String::as_str);
        let seated = pairing.0.into_iter().filter_map(|player| self.players.get(player));
        let source = TokenSource::of(seated.map(|player| &player.player));
        let labels = game.game.labels();
        let players = labels.seats.into_iter().zip(pairing.0).map(|(seat, player)| format!("{seat}={}", who(player)));
        let players = format!(
            "{}; {}; {}",
            players.collect::<Vec<_>>().join("; "),
            GameArgs::describe_game(&game.rules, source, &self.prompts),
            self.args.playing.sampling.describe(source) + &self.args.playing.describe_reasoning()
        );
        let job = PlayJob {
            game: &*game.game,
            games: game.specs.clone(),
            players,
            play: self.args.rules.play_config(),
            files: JobFiles::records_only(path),
            ranks: Ranks::Single,
        };
        Ok(job.open()?)
    }

    /// Plays the missing games of all pairings and counts the endings of all games, of each game on its own.
    fn play(&self) -> Result<Vec<Vec<(Pairing, Tally)>>> {
        // Opens all records before the first game, so that a record of other players is reported at once.
        let (mut done, mut total) = (0, 0);
        for game in &self.games {
            for pairing in &self.pairings {
                done += self.open(game, *pairing)?.recorded();
                total += game.specs.len();
            }
        }
        if done > 0 {
            let folder = self.args.output_dir.display();
            exit::note(format_args!(
                "note: {done} of {total} games are in {folder} already; delete it to play them again"
            ));
        }
        let mut progress = TerminalProgress::default();
        progress.resume("arena", total as u64, done as u64);
        let mut bar = Bar { progress: &mut progress, done };
        let mut table = Table::new((&self.args.playing, self.prompts.format()), &self.players, &self.keys);
        let mut results: Vec<Vec<(Pairing, Tally)>> = self.games.iter().map(|_| Vec::new()).collect();
        // Players that are loaded play all games.
        for pairing in &self.pairings {
            for (game, results) in self.games.iter().zip(&mut results) {
                results.push((*pairing, self.play_pairing(game, *pairing, &mut table, &mut bar)?));
            }
        }
        progress.end();
        let failed: usize = results.iter().flatten().map(|(_, counts)| counts.failed).sum();
        if failed > 0 {
            exit::note(format_args!(
                "note: {failed} games failed; see the files named _failed.jsonl; the same command plays them again"
            ));
        }
        let Work { truncated_prompts, requests, retries } = table.work();
        if truncated_prompts > 0 {
            exit::note(format_args!(
                "note: {truncated_prompts} prompts were too long for --max_length and lost their beginning"
            ));
        }
        if requests > 0 {
            exit::note(format_args!("note: {requests} requests to endpoints, {retries} of them retries"));
        }
        Ok(results)
    }

    fn play_pairing(
        &self,
        game: &ArenaGame,
        pairing: Pairing,
        table: &mut Table<'_>,
        bar: &mut Bar<'_>,
    ) -> Result<Tally> {
        let mut job = self.open(game, pairing)?;
        if job.recorded() < job.total() {
            let mut observer = PairingBar { bar, name: self.name(game, pairing) };
            table.seat(pairing, |players| {
                job.play_pair(players, &mut observer)?;
                Ok(())
            })?;
        }
        let run = job.run_stats();
        // The statistics of the record, so that a resumed arena has the same results.
        let mut counts = Tally::new(game.game.labels());
        if let Finished::Written { stats, missing, .. } = job.finish(&run)? {
            counts = stats.counts().clone();
            counts.failed = missing;
        }
        Ok(counts)
    }

    fn name(&self, game: &ArenaGame, pairing: Pairing) -> String {
        let name = |player: usize| self.players.get(player).map_or("", |player| player.name.as_str());
        let pair = pairing.0.map(name).join(" – ");
        game.folder.as_ref().map_or_else(|| pair.clone(), |game| format!("{game}: {pair}"))
    }
}

/// Rejects several processes: each would play all games.
fn require_single_process(env: &LaunchEnv) -> Result<()> {
    let launcher = match env.launcher {
        Launcher::Direct => "this shell",
        Launcher::Torch => "torchrun (WORLD_SIZE)",
        Launcher::Slurm => "srun (SLURM_NTASKS)",
        Launcher::OpenMpi => "mpirun (OMPI_COMM_WORLD_SIZE)",
    };
    if env.world_size <= 1 {
        return Ok(());
    }
    let problem = format!(
        "it started {} processes, but an arena plays in one process; start a single one, without the launcher",
        env.world_size
    );
    Err(Error::BadValue { flag: launcher.into(), problem })
}

/// Checks that the folders of the games hold nothing else, and no player.
fn check_folders(args: &ArenaArgs, players: &[NamedPlayer], games: &[ArenaGame]) -> Result<()> {
    let files = checkpoint_files("--players", players.iter().map(|player| &player.player));
    let files = files.read_all("--words", &args.words).read_all("--config", &args.config);
    let mut files = files.read_all("--prompts", args.rules.prompts.file());
    games.iter().try_for_each(|game| write_games(&mut files, &game.output_dir(&args.output_dir)))
}

/// Gives players their adapters.
///
/// # Errors
/// A name that no player has, or an endpoint.
fn give_adapters(players: &mut [NamedPlayer], adapters: &[NamedFolder]) -> Result<()> {
    for NamedFolder { name, folder } in adapters {
        let problem = |problem: &str| Error::BadValue {
            flag: format!("--adapter {name}={}", folder.display()),
            problem: problem.to_owned(),
        };
        let player = players.iter_mut().find(|player| player.name == *name);
        let player = player.ok_or_else(|| problem("no player has this name"))?;
        if matches!(player.player, PlayerSpec::Adapted { .. }) {
            return Err(problem("the player has an adapter already"));
        }
        let adapted = player.player.with_adapter(folder.clone());
        player.player = adapted.ok_or_else(|| problem("the player is an endpoint, which has its own weights"))?;
    }
    Ok(())
}

/// The description of a player in records. Rejects an invalid checkpoint before the first game.
fn describe(playing: &PlayerArgs, players: &[NamedPlayer], player: &NamedPlayer) -> Result<String> {
    let check = || -> Result<String> {
        if let Some((folder, _)) = player.player.checkpoint() {
            load_config(folder)?;
        }
        let mut described = playing.describe(&player.player)?;
        if matches!(player.player, PlayerSpec::Adapted { .. }) && in_league(players, &player.player).is_some() {
            // Merged weights differ in rounding.
            described.push_str(", unmerged");
        }
        Ok(described)
    };
    check().map_err(|error| Error::BadValue {
        flag: format!("--players {}={}", player.name, player.player),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arena_rejects_several_processes() {
        assert!(require_single_process(&LaunchEnv::single()).is_ok());
        let two = LaunchEnv { launcher: Launcher::Torch, world_size: 2, ..LaunchEnv::single() };
        let message = require_single_process(&two).unwrap_err().to_string();
        assert!(message.contains("torchrun (WORLD_SIZE): it started 2 processes"), "{message}");
    }
}
