//! The games of a run on the disk: one file that grows line by line, and one at the end.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;
use spag_game::{Episode, FinishedGame, GameSpec, JsonlAppender, write_json_atomically};

use crate::{Error, Result};

/// Keys of an episode that say which game it was, and from which seed it was played.
const GAME: &str = "game";
const SEED: &str = "seed";

/// The games played so far, each in a line of a JSONL file from the moment it was finished.
pub(crate) struct GameRecord {
    path: PathBuf,
    lines: JsonlAppender<Episode>,
    games: BTreeMap<usize, Episode>,
}

impl GameRecord {
    /// Opens the file, with the games of an earlier, stopped run in it.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that holds games other than `specs`.
    pub(crate) fn open(path: &Path, specs: &[GameSpec]) -> Result<Self> {
        let (lines, episodes) = JsonlAppender::resume(path)?;
        let mut games = BTreeMap::new();
        for (index, episode) in episodes.into_iter().enumerate() {
            let game = number(&episode, GAME).and_then(|game| usize::try_from(game).ok());
            let spec = game.and_then(|game| specs.get(game));
            let same = spec.filter(|spec| {
                spec.target_word == episode.target_word
                    && spec.max_turns == episode.max_turns
                    && number(&episode, SEED) == Some(spec.seed)
            });
            let Some(spec) = same else {
                return Err(Error::OtherGames { path: path.to_owned(), row: index + 1 });
            };
            games.insert(spec.game, episode);
        }
        Ok(Self { path: path.to_owned(), lines, games })
    }

    /// Whether the game has been played.
    pub(crate) fn holds(&self, game: usize) -> bool {
        self.games.contains_key(&game)
    }

    /// The games played so far.
    pub(crate) fn episodes(&self) -> impl Iterator<Item = &Episode> {
        self.games.values()
    }

    /// Appends a game; it is on the disk when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&mut self, finished: FinishedGame) -> spag_game::Result<()> {
        let mut episode = finished.episode;
        episode.extra.insert(GAME.into(), Value::from(finished.game));
        episode.extra.insert(SEED.into(), Value::from(finished.seed));
        self.lines.append(&episode)?;
        self.games.insert(finished.game, episode);
        Ok(())
    }

    /// Writes all games, in the order of their numbers, as one JSON list.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_results(&self, path: &Path) -> Result<()> {
        Ok(write_json_atomically(path, &self.games.values().collect::<Vec<_>>())?)
    }

    /// The file of the games.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn number(episode: &Episode, key: &str) -> Option<u64> {
    episode.extra.get(key).and_then(Value::as_u64)
}
