//! Referees for many words that come again and again.

use super::{JudgeKind, Referee};
use crate::error::Result;
use crate::outcome::Verdict;
use crate::view::EpisodeView;

/// Words whose referee is kept: some megabytes at most.
const PLACES: usize = 1 << 15;

/// Judges episodes one after another, and keeps what it found out about their words. Memory is bounded: a word has one
/// place, and loses it to the next word that has the same.
#[derive(Debug)]
pub struct Referees {
    kind: JudgeKind,
    known: Vec<Option<Box<(String, Referee)>>>,
    /// Texts are lower-cased here.
    lower: String,
}

impl Referees {
    /// Knows no word yet.
    pub fn new(kind: JudgeKind) -> Self {
        Self { kind, known: vec![None; PLACES], lower: String::new() }
    }

    /// The verdict on an episode: that of [`judge_episode`](crate::judge_episode).
    ///
    /// # Errors
    /// [`Error::TargetWord`](crate::Error::TargetWord), which an episode that has been checked does not give.
    pub fn judge(&mut self, episode: &EpisodeView<'_>) -> Result<Verdict> {
        let word = episode.target_word.text();
        let place = place(&word);
        let known = self.known.get(place).and_then(Option::as_ref).is_some_and(|known| known.0 == word);
        if !known {
            let newcomer = Some(Box::new((word.to_string(), Referee::new(self.kind, &word)?)));
            if let Some(place) = self.known.get_mut(place) {
                *place = newcomer;
            }
        }
        match self.known.get(place).and_then(Option::as_ref) {
            Some(known) => Ok(known.1.judge_view(episode, &mut self.lower)),
            None => Ok(Referee::new(self.kind, &word)?.judge_view(episode, &mut self.lower)),
        }
    }
}

/// A word's place: its FNV-1a hash (Fowler, Noll and Vo), which is quick for so few bytes.
fn place(word: &str) -> usize {
    let hash = word
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    // The upper half is mixed better.
    (hash >> 32) as usize % PLACES
}
