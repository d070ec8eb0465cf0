//! The games of a run on the disk: a file that grows game by game and outlives a kill.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::driver::{FinishedGame, GameSpec};
use crate::episode::Episode;
use crate::error::{Error, Result};
use crate::io::JsonlAppender;

/// Keys of an episode that say which game it was, and from which seed it was played.
const GAME: &str = "game";
const SEED: &str = "seed";

/// The games of a run: those in a JSONL file already, each there from the moment it was finished, and those to come.
///
/// Games are independent of each other, each with its own seed, so going on after a kill means playing the missing ones.
#[derive(Debug)]
pub struct GameRecord {
    path: PathBuf,
    lines: JsonlAppender<Episode>,
    specs: Vec<GameSpec>,
    games: BTreeMap<usize, Episode>,
}

impl GameRecord {
    /// Opens the file of the games `specs`, numbered from 0, with those of an earlier, stopped run in it. A line torn by
    /// a kill is dropped.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that holds a game that is none of `specs`.
    pub fn open(path: impl AsRef<Path>, specs: Vec<GameSpec>) -> Result<Self> {
        let path = path.as_ref();
        let (lines, episodes) = JsonlAppender::<Episode>::resume(path)?;
        let mut games = BTreeMap::new();
        for (index, episode) in episodes.into_iter().enumerate() {
            let Some(game) = identify(&episode, &specs) else {
                let reason = "no game of this run (its number, word, turns or seed differ); \
                              delete the file to play its games again, or play into another";
                return Err(Error::Row { path: path.to_owned(), row: index + 1, reason: reason.into() });
            };
            games.insert(game, episode);
        }
        Ok(Self { path: path.to_owned(), lines, specs, games })
    }

    /// The games that are still to be played, in order.
    pub fn missing(&self) -> Vec<GameSpec> {
        self.specs.iter().filter(|spec| !self.games.contains_key(&spec.game)).cloned().collect()
    }

    /// How many games there are to be in the end.
    pub fn total(&self) -> usize {
        self.specs.len()
    }

    /// The games played so far, in the order of their numbers.
    pub fn episodes(&self) -> impl ExactSizeIterator<Item = &Episode> {
        self.games.values()
    }

    /// Appends a game with its number and its seed; it has reached the operating system when this returns.
    ///
    /// # Errors
    /// The file cannot be written; the games before it stay.
    pub fn add(&mut self, finished: FinishedGame) -> Result<()> {
        let mut episode = finished.episode;
        episode.extra.insert(GAME.into(), Value::from(finished.game));
        episode.extra.insert(SEED.into(), Value::from(finished.seed));
        self.lines.append(&episode)?;
        self.games.insert(finished.game, episode);
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All games played, in the order of their numbers.
    pub fn into_episodes(self) -> Vec<Episode> {
        self.games.into_values().collect()
    }
}

/// Which of `specs` the episode was played for.
fn identify(episode: &Episode, specs: &[GameSpec]) -> Option<usize> {
    let number = |key: &str| episode.extra.get(key).and_then(Value::as_u64);
    let spec = specs.get(usize::try_from(number(GAME)?).ok()?)?;
    let same = spec.target_word == episode.target_word
        && spec.max_turns == episode.max_turns
        && number(SEED) == Some(spec.seed);
    same.then_some(spec.game)
}
