//! What a run was played with, from its settings.

use std::path::PathBuf;

use serde::Deserialize;
use spag_game::JudgeKind;
use spag_run::RunFolder;
use spag_selfplay::{GameSettings, GameShare};
use toml::Table;

/// A game of a run: what a page offers to play.
#[derive(Clone, Debug, PartialEq)]
pub struct RunGame {
    /// Its folder in that of each stage; none if it is the only game.
    pub folder: Option<String>,
    /// The game and its rules.
    pub rules: GameSettings,
    /// The file of words or facts.
    pub data: Option<PathBuf>,
}

/// The games, the words and the rules of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSettings {
    /// The games, at least one.
    pub games: Vec<RunGame>,
    /// The lexicon whose words are played, if it is not the built-in one.
    pub lexicon: Option<PathBuf>,
    /// The judge of Adversarial Taboo.
    pub judge: JudgeKind,
    /// Turns after which an undecided game is tied.
    pub max_turns: Option<usize>,
    /// All settings.
    pub(super) table: Table,
}

/// The keys of a run's settings that say what was played.
#[derive(Deserialize)]
struct Keys {
    judge: JudgeKind,
    #[serde(default)]
    words: Words,
    game: Option<String>,
    game_options: Option<String>,
    #[serde(default)]
    games: Vec<GameShare>,
    max_turns: Option<usize>,
    lexicon: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
struct Words {
    file: Option<PathBuf>,
}

impl RunSettings {
    /// The settings in a run folder, if they can be read.
    pub fn read(run: &RunFolder) -> Option<Self> {
        let table: Table = run.settings()?.parse().ok()?;
        let keys: Keys = table.clone().try_into().ok()?;
        let shared = GameSettings { judge: keys.judge, ..GameSettings::default() };
        let of = |folder, rules: GameSettings, data: Option<PathBuf>| {
            let data = if rules.has_items() || data.is_none() { keys.words.file.clone() } else { data };
            RunGame { folder, rules, data }
        };
        let mut games: Vec<RunGame> = keys
            .games
            .iter()
            .zip(GameShare::folders(&keys.games))
            .map(|(game, folder)| of((keys.games.len() > 1).then_some(folder), game.rules(&shared), game.data.clone()))
            .collect();
        if !table.contains_key("games") {
            let game = keys.game.clone().unwrap_or_else(|| GameSettings::default().game);
            games.push(of(None, GameSettings { game, game_options: keys.game_options.clone(), ..shared }, None));
        }
        let Keys { judge, max_turns, lexicon, .. } = keys;
        (!games.is_empty()).then_some(Self { games, lexicon, judge, max_turns, table })
    }
}
