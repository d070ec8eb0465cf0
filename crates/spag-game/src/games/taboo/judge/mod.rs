//! The rules: who has won, decided by text alone.

mod first_word;
mod marks;
mod occurrences;
mod prediction;
mod referee;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use prediction::is_prediction;
pub use referee::{Referee, word_forms};

use crate::episode::{Episode, EpisodeView};
use crate::error::{Error, Result};
use crate::game::Judge;
use crate::labels::Labels;
use crate::taboo::LABELS;
use crate::verdict::Verdict;

/// Which rules decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgeKind {
    /// The paper's: a form of the word counts anywhere in the text, also inside other words ("art" in "start").
    #[default]
    Paper,
    /// A form counts only as a whole word.
    #[serde(alias = "whole_word")]
    WholeWord,
}

impl JudgeKind {
    /// The names of the game that this judge decides.
    pub fn labels(self) -> &'static Labels {
        &LABELS
    }
}

impl FromStr for JudgeKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "paper" => Ok(Self::Paper),
            "whole-word" | "whole_word" => Ok(Self::WholeWord),
            other => Err(Error::UnknownJudge { name: other.to_owned() }),
        }
    }
}

impl fmt::Display for JudgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paper => "paper",
            Self::WholeWord => "whole-word",
        })
    }
}

/// Judges one episode.
///
/// # Errors
/// The target word is empty, or the roles do not alternate.
pub fn judge_episode(kind: JudgeKind, episode: &Episode) -> Result<Verdict> {
    let episode = episode.view();
    episode.check()?;
    Ok(Referee::new(kind, &episode.item)?.judge(&episode))
}

/// Judges many episodes. Keeps the [`Referee`] of each target word, which takes longer to make than to use.
#[derive(Clone, Debug)]
pub(super) struct RefereeCache {
    kind: JudgeKind,
    referees: HashMap<String, Referee>,
    /// Bytes of the target words of the cached referees.
    bytes: usize,
}

impl RefereeCache {
    /// Cached referees; beyond this number the cache starts over. Some megabytes.
    const CAPACITY: usize = 1 << 14;
    /// The same for the bytes of their words, some ten of which a referee takes for each.
    const MAX_BYTES: usize = 1 << 22;

    /// An empty cache.
    pub(super) fn new(kind: JudgeKind) -> Self {
        Self { kind, referees: HashMap::new(), bytes: 0 }
    }
}

impl Judge for RefereeCache {
    /// The verdict that [`judge_episode`] returns.
    fn judge(&mut self, episode: &EpisodeView<'_>) -> Result<Verdict> {
        episode.check()?;
        let word = &*episode.item;
        if let Some(referee) = self.referees.get(word) {
            return Ok(referee.judge(episode));
        }
        if self.referees.len() >= Self::CAPACITY || self.bytes.saturating_add(word.len()) > Self::MAX_BYTES {
            self.referees.clear();
            self.bytes = 0;
        }
        self.bytes += word.len();
        let referee = Referee::new(self.kind, word)?;
        Ok(self.referees.entry(word.to_owned()).or_insert(referee).judge(episode))
    }
}
