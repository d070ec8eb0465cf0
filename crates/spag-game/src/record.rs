//! The games of a run on disk: a JSONL file that grows game by game and survives a kill.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spag_io::{JsonlAppender, read_complete_lines};

use crate::driver::{FailedGame, FinishedGame, GameSink};
use crate::episode::{Episode, SEED};
use crate::error::{Error, Result};
use crate::game::Game;
use crate::spec::GameSpec;
use crate::verdict::Verdict;

// Keys of a recorded episode: the number of the game, and the players and their settings.
const GAME: &str = "game";
const PLAYERS: &str = "players";

/// The games of a run, in a JSONL file to which each is appended when it ends.
///
/// Games are independent and have their own seeds, so a stopped run resumes by playing the missing ones. Failed games
/// count as missing. Those since the record was opened are written to a second file, `NAME_failed.jsonl`, with the
/// reason.
#[derive(Debug)]
pub struct GameRecord {
    path: PathBuf,
    appender: JsonlAppender<Episode>,
    failed_path: PathBuf,
    /// Opened at the first failed game.
    failed: Option<JsonlAppender<Episode>>,
    specs: Vec<GameSpec>,
    players: String,
    games: BTreeMap<usize, (Episode, Verdict)>,
}

impl GameRecord {
    /// Opens the record of the games `specs` of `game`, which are numbered from 0, and reads and judges those of an earlier
    /// run. Drops a last line torn by a kill. Locks the file until the record is dropped.
    ///
    /// `players` describes the players as settings separated by "; " (`model=llama-7b; temperature=1.2`). It is
    /// recorded with every game; a game recorded with different settings is an error.
    ///
    /// # Errors
    /// The file cannot be read or written, another run writes to it, or it holds a game that is not one of `specs`, has
    /// other players or cannot be judged.
    pub fn open(
        path: impl AsRef<Path>,
        game: &dyn Game,
        specs: Vec<GameSpec>,
        players: impl Into<String>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let (appender, episodes) = game.labels().reading(|| JsonlAppender::<Episode>::resume(path))?;
        let mut failed_name = path.file_stem().unwrap_or_default().to_owned();
        failed_name.push("_failed.jsonl");
        let mut record = Self {
            path: path.to_owned(),
            appender,
            failed_path: path.with_file_name(failed_name),
            failed: None,
            specs,
            players: players.into(),
            games: BTreeMap::new(),
        };
        record.insert(path, game, episodes)?;
        match fs::remove_file(&record.failed_path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(spag_io::Error::io(&record.failed_path)(error).into())
            }
            _ => Ok(record),
        }
    }

    /// Adds the games of another file of the same run, such as one that another process appends to. Skips a torn last
    /// line. Returns the numbers of the new games.
    ///
    /// # Errors
    /// As [`GameRecord::open`], except that the file may be in use.
    pub fn merge_file(&mut self, path: impl AsRef<Path>, game: &dyn Game) -> Result<Vec<usize>> {
        let episodes = game.labels().reading(|| read_complete_lines::<Episode>(path.as_ref()))?;
        self.insert(path.as_ref(), game, episodes)
    }

    /// Inserts the rows of the file at `path`; of two rows with the same game, the first is kept.
    fn insert(&mut self, path: &Path, game: &dyn Game, episodes: Vec<Episode>) -> Result<Vec<usize>> {
        let (mut new, mut judge) = (Vec::new(), game.judge());
        for (row, episode) in (1..).zip(episodes) {
            let Some(number) = find_spec(&episode, &self.specs) else {
                let reason = "no game of this run (its number, word, turns or seed differ); \
                              delete the file to play its games again, or play into another";
                return Err(spag_io::Error::Row { path: path.to_owned(), row, reason: reason.into() }.into());
            };
            let invalid = |error: Error| spag_io::Error::Row { path: path.to_owned(), row, reason: error.to_string() };
            let verdict = judge.judge(&episode.view()).map_err(invalid)?;
            // Files of earlier versions lack this key.
            if let Some(before) = episode.extra.get(PLAYERS).and_then(Value::as_str)
                && let Some(difference) = settings_difference(before, &self.players)
            {
                return Err(Error::OtherPlayers { path: path.to_owned(), row, difference });
            }
            if let Entry::Vacant(entry) = self.games.entry(number) {
                entry.insert((episode, verdict));
                new.push(number);
            }
        }
        Ok(new)
    }

    /// The games that still have to be played, in order.
    pub fn missing(&self) -> Vec<GameSpec> {
        self.specs.iter().filter(|spec| !self.games.contains_key(&spec.number)).cloned().collect()
    }

    /// The game of this number with its verdict, if it was played.
    pub fn game(&self, number: usize) -> Option<&(Episode, Verdict)> {
        self.games.get(&number)
    }

    /// The number of games of the run.
    pub fn total(&self) -> usize {
        self.specs.len()
    }

    /// The games played so far with their verdicts, in the order of their numbers.
    pub fn games(&self) -> impl ExactSizeIterator<Item = &(Episode, Verdict)> {
        self.games.values()
    }

    /// Appends a game with its number, seed and players. It has reached the operating system when this returns.
    ///
    /// # Errors
    /// The file cannot be written. Earlier games are kept.
    pub fn add(&mut self, finished: FinishedGame) -> Result<()> {
        let episode = self.annotate(finished.episode, finished.number, finished.seed);
        self.appender.append(&episode)?;
        self.games.insert(finished.number, (episode, finished.verdict));
        Ok(())
    }

    /// Appends a failed game, the seat of the failed turn and the reason to the file of failed games.
    ///
    /// # Errors
    /// That file cannot be written.
    pub fn add_failed(&mut self, failed: FailedGame) -> Result<()> {
        let mut episode = self.annotate(failed.episode, failed.number, failed.seed);
        episode.extra.insert("role".into(), Value::from(failed.seat.to_string()));
        episode.extra.insert("reason".into(), Value::from(failed.failure.to_string()));
        let appender = match &mut self.failed {
            Some(appender) => appender,
            none => none.insert(JsonlAppender::create(&self.failed_path)?),
        };
        Ok(appender.append(&episode)?)
    }

    fn annotate(&self, mut episode: Episode, number: usize, seed: u64) -> Episode {
        // They come first.
        let keys = [(GAME, Value::from(number)), (SEED, seed.into()), (PLAYERS, self.players.as_str().into())];
        for (at, (key, value)) in keys.into_iter().enumerate() {
            episode.extra.shift_insert(at, key.to_owned(), value);
        }
        episode
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of failed games; it exists only if a game has failed.
    pub fn failed_path(&self) -> &Path {
        &self.failed_path
    }

    /// The games played so far, in the order of their numbers.
    pub fn into_episodes(self) -> Vec<Episode> {
        self.games.into_values().map(|(episode, _)| episode).collect()
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

/// The number of the spec that the episode was played for.
fn find_spec(episode: &Episode, specs: &[GameSpec]) -> Option<usize> {
    let number = |key: &str| episode.extra.get(key).and_then(Value::as_u64);
    let spec = specs.get(usize::try_from(number(GAME)?).ok()?)?;
    let same = spec.item == episode.item && spec.max_turns == episode.max_turns && number(SEED) == Some(spec.seed);
    same.then_some(spec.number)
}

/// The settings in which `before` and `now` differ, in any order; `None` if there are none.
fn settings_difference(before: &str, now: &str) -> Option<String> {
    let only_in = |of: &str, other: &str| -> String {
        let other: Vec<&str> = other.split("; ").collect();
        let own: Vec<&str> = of.split("; ").filter(|setting| !other.contains(setting)).collect();
        let own = own.join("; ");
        if own.is_empty() { "(nothing)".to_owned() } else { spag_io::abridge(&own, 1000).into_owned() }
    };
    let (then, now) = (only_in(before, now), only_in(now, before));
    (then != now).then(|| format!("then {then}, now {now}"))
}

#[cfg(test)]
mod tests {
    use super::settings_difference;

    #[test]
    fn difference_names_changed_settings_only() {
        assert_eq!(settings_difference("model=a; seed=1", "seed=1; model=a"), None);
        for (before, now, difference) in [
            (
                "model=a; temperature=1.2; seed=1",
                "model=a; temperature=1; seed=1",
                "then temperature=1.2, now temperature=1",
            ),
            ("model=a", "model=a; top_p=0.9", "then (nothing), now top_p=0.9"),
            ("", "model=a", "then (nothing), now model=a"),
        ] {
            assert_eq!(settings_difference(before, now).as_deref(), Some(difference));
        }
    }
}
