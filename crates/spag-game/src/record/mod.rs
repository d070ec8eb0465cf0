//! The games of a run on the disk: a file that grows game by game and outlives a kill.

mod failed;
mod players;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::driver::{FailedGame, FinishedGame, GameSink, GameSpec};
use crate::episode::Episode;
use crate::error::{Error, Result};
use failed::FailedGames;
use spag_io::{JsonlAppender, read_complete_lines};

/// Keys of an episode that say which game it was, from which seed it was played, and by whom.
const GAME: &str = "game";
const SEED: &str = "seed";
const PLAYERS: &str = "players";

/// The games of a run: those in a JSONL file already, each there from the moment it was finished, and those to come.
///
/// Games are independent of each other, each with its own seed, so going on after a kill means playing the missing ones.
/// Failed games are missing ones; so that one can see why, they are written to a file beside it, `NAME_failed.jsonl`,
/// which holds those since the record was opened.
#[derive(Debug)]
pub struct GameRecord {
    path: PathBuf,
    lines: JsonlAppender<Episode>,
    failed: FailedGames,
    specs: Vec<GameSpec>,
    players: String,
    games: BTreeMap<usize, Episode>,
}

impl GameRecord {
    /// Opens the file of the games `specs`, numbered from 0, with those of an earlier, stopped run in it. A line torn by
    /// a kill is dropped. The file is locked: nobody else can open it until this is dropped.
    ///
    /// `players` says who plays and how, as settings separated by "; " (`attacker=llama-7b; temperature=1.2`). It is
    /// noted with every game, and games that were noted with another one are refused.
    ///
    /// # Errors
    /// A file that cannot be read or written, that another run writes to, or that holds a game that is none of `specs`
    /// or was played by others.
    pub fn open(path: impl AsRef<Path>, specs: Vec<GameSpec>, players: impl Into<String>) -> Result<Self> {
        let (path, players) = (path.as_ref(), players.into());
        let (lines, episodes) = JsonlAppender::<Episode>::resume(path)?;
        let failed = FailedGames::beside(path);
        let mut record = Self { path: path.to_owned(), lines, failed, specs, players, games: BTreeMap::new() };
        record.accept(path, episodes)?;
        record.failed.forget()?;
        Ok(record)
    }

    /// Takes in the games of another file of the same run, for instance one that another process appends to; a line
    /// that is not whole yet is left out. Returns the numbers of those that were not there before.
    ///
    /// # Errors
    /// As [`GameRecord::open`], except that the file may be in use.
    pub fn merge_file(&mut self, path: impl AsRef<Path>) -> Result<Vec<usize>> {
        let episodes = read_complete_lines::<Episode>(path.as_ref())?;
        self.accept(path.as_ref(), episodes)
    }

    /// Puts the rows of the file at `path` to the games; where two rows are one game, the first counts.
    fn accept(&mut self, path: &Path, episodes: Vec<Episode>) -> Result<Vec<usize>> {
        let mut new = Vec::new();
        for (index, episode) in episodes.into_iter().enumerate() {
            let row = index + 1;
            let Some(game) = identify(&episode, &self.specs) else {
                let reason = "no game of this run (its number, word, turns or seed differ); \
                              delete the file to play its games again, or play into another";
                return Err(spag_io::Error::Row { path: path.to_owned(), row, reason: reason.into() }.into());
            };
            // Files of before players were noted have no such key.
            if let Some(before) = episode.extra.get(PLAYERS).and_then(Value::as_str)
                && let Some(difference) = players::difference(before, &self.players)
            {
                return Err(Error::OtherPlayers { path: path.to_owned(), row, difference });
            }
            if let Entry::Vacant(place) = self.games.entry(game) {
                place.insert(episode);
                new.push(game);
            }
        }
        Ok(new)
    }

    /// The games that are still to be played, in order.
    pub fn missing(&self) -> Vec<GameSpec> {
        self.specs.iter().filter(|spec| !self.games.contains_key(&spec.game)).cloned().collect()
    }

    /// The game of this number, if it has been played.
    pub fn episode(&self, game: usize) -> Option<&Episode> {
        self.games.get(&game)
    }

    /// How many games there are to be in the end.
    pub fn total(&self) -> usize {
        self.specs.len()
    }

    /// The games played so far, in the order of their numbers.
    pub fn episodes(&self) -> impl ExactSizeIterator<Item = &Episode> {
        self.games.values()
    }

    /// Appends a game with its number, its seed and its players; it has reached the operating system when this returns.
    ///
    /// # Errors
    /// The file cannot be written; the games before it stay.
    pub fn add(&mut self, finished: FinishedGame) -> Result<()> {
        let mut episode = finished.episode;
        note(&mut episode, finished.game, finished.seed, &self.players);
        self.lines.append(&episode)?;
        self.games.insert(finished.game, episode);
        Ok(())
    }

    /// Appends a game that failed to the file beside; it stays missing here.
    ///
    /// # Errors
    /// That file cannot be written.
    pub fn add_failed(&mut self, failed: FailedGame) -> Result<()> {
        self.failed.add(failed, &self.players)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where failed games go; there is such a file once there is such a game.
    pub fn failed_path(&self) -> &Path {
        self.failed.path()
    }

    /// All games played, in the order of their numbers.
    pub fn into_episodes(self) -> Vec<Episode> {
        self.games.into_values().collect()
    }
}

impl GameSink for GameRecord {
    fn finished(&mut self, game: FinishedGame) -> Result<()> {
        self.add(game)
    }

    fn failed(&mut self, game: FailedGame) -> Result<()> {
        self.add_failed(game)
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

/// Writes into an episode which game it was and who played it.
fn note(episode: &mut Episode, game: usize, seed: u64, players: &str) {
    episode.extra.insert(GAME.into(), Value::from(game));
    episode.extra.insert(SEED.into(), Value::from(seed));
    episode.extra.insert(PLAYERS.into(), Value::from(players));
}
