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

impl RunSettings {
    /// The settings in a run folder, if they can be read.
    pub fn read(run: &RunFolder) -> Option<Self> {
        let table: Table = run.settings()?.parse().ok()?;
        let text = |key: &str| Some(table.get(key)?.as_str()?.to_owned());
        let path = |key: &str| text(key).map(PathBuf::from);
        let words = table.get("words").and_then(|words| words.get("file")?.as_str()).map(PathBuf::from);
        let judge: JudgeKind = text("judge")?.parse().ok()?;
        let shared = GameSettings { judge, ..GameSettings::default() };
        let of = |folder, rules: GameSettings, data: Option<PathBuf>| {
            let data = if rules.has_items() || data.is_none() { words.clone() } else { data };
            RunGame { folder, rules, data }
        };
        let games = match table.get("games") {
            None => {
                let game = text("game").unwrap_or_else(|| GameSettings::default().game);
                vec![of(None, GameSettings { game, game_options: text("game_options"), ..shared }, None)]
            }
            Some(games) => {
                let games = Vec::<GameShare>::deserialize(games.clone()).ok()?;
                let is_alone = games.len() == 1;
                let folders = GameShare::folders(&games);
                let game = |(game, folder): (&GameShare, String)| {
                    of((!is_alone).then_some(folder), game.rules(&shared), game.data.clone())
                };
                games.iter().zip(folders).map(game).collect()
            }
        };
        let max_turns = table.get("max_turns").and_then(|turns| usize::try_from(turns.as_integer()?).ok());
        let lexicon = path("lexicon");
        (!games.is_empty()).then_some(Self { games, lexicon, judge, max_turns, table })
    }
}
