//! The games of an arena: one, or several with a table each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spag_cli::{Error, GameArgs, Result, exit};
use spag_game::{AfterDecision, Game, GameSpec, PromptSet};
use spag_pipeline::{RunConfig, RunGame};
use spag_selfplay::{GameSettings, GameShare, games_on_cycled_words};

/// Which games are asked for.
pub(super) struct Asked<'a> {
    pub(super) args: &'a GameArgs,
    /// The configuration of a run, in place of `--game`.
    pub(super) config: Option<&'a Path>,
    /// The file of words or facts.
    pub(super) data: Option<&'a Path>,
    /// Games of each pairing.
    pub(super) count: usize,
    pub(super) seed: u64,
}

/// A game of an arena.
pub(super) struct ArenaGame {
    /// Its folder in that of the arena; none if it is the only game.
    pub(super) folder: Option<String>,
    pub(super) rules: GameSettings,
    pub(super) max_turns: usize,
    /// The games of every pairing.
    pub(super) specs: Vec<GameSpec>,
    pub(super) game: Arc<dyn Game>,
}

impl ArenaGame {
    /// Opens all games. A list with repeated words or blank lines is shown.
    ///
    /// # Errors
    /// A file that cannot be read, a game or an option that does not exist.
    pub(super) fn all(asked: &Asked<'_>, prompts: &PromptSet) -> Result<Vec<Self>> {
        let (games, max_turns) = match asked.config {
            Some(file) => {
                let config = RunConfig::load(file, &[])?;
                (config.run_games(), config.max_turns)
            }
            None => (named(asked)?, asked.args.taboo_max_turns()),
        };
        games.into_iter().map(|game| Self::open(asked, game, max_turns, prompts)).collect()
    }

    fn open(asked: &Asked<'_>, game: RunGame, max_turns: usize, prompts: &PromptSet) -> Result<Self> {
        let RunGame { folder, rules, data } = game;
        let data: Option<PathBuf> = data.or_else(|| asked.data.map(Path::to_owned));
        let list = rules.items(data.as_deref()).map_err(Error::of_flag("--words"))?;
        if let Some(path) = data.as_ref().filter(|_| !list.is_plain()) {
            exit::note(format_args!("note: {}: {list}", path.display()));
        }
        let max_turns = rules.turns(max_turns);
        let specs = games_on_cycled_words(&list.words, asked.count, max_turns, asked.seed);
        let game = rules.open(AfterDecision::Stop, prompts, data.as_deref())?;
        Ok(Self { folder, rules, max_turns, specs, game })
    }

    /// The folder of its files.
    pub(super) fn output_dir(&self, arena: &Path) -> PathBuf {
        self.folder.as_ref().map_or_else(|| arena.to_owned(), |folder| arena.join(folder))
    }
}

/// The games of `--game`, separated by commas.
fn named(asked: &Asked<'_>) -> Result<Vec<RunGame>> {
    let rules = &asked.args.rules;
    let names: Vec<&str> = rules.game.split(',').map(str::trim).collect();
    if let [_] = names[..] {
        return Ok(vec![RunGame { folder: None, rules: rules.clone(), data: None }]);
    }
    if rules.game_options.is_some() {
        let problem = "which of several games they are of is not known; --config has options for each".to_owned();
        return Err(Error::BadValue { flag: "--game_options".into(), problem });
    }
    let games: Vec<GameShare> =
        names.iter().map(|name| GameShare { game: (*name).to_owned(), ..GameShare::default() }).collect();
    let folders = GameShare::folders(&games);
    if let Some(twice) = folders.iter().zip(&games).find(|(folder, game)| **folder != game.game) {
        return Err(Error::BadValue { flag: "--game".into(), problem: format!("{} is named twice", twice.1.game) });
    }
    let game =
        |(game, folder): (&GameShare, String)| RunGame { folder: Some(folder), rules: game.rules(rules), data: None };
    Ok(games.iter().zip(folders).map(game).collect())
}
