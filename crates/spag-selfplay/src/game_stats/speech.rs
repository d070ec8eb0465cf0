//! Statistics of utterances.

use serde::Serialize;

/// Sums over the utterances of one seat or of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Speech {
    pub(super) utterances: u64,
    pub(super) empty: u64,
    pub(super) repeated: u64,
    pub(super) words: u64,
    pub(super) characters: u64,
}

impl Speech {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            utterances: self.utterances + other.utterances,
            empty: self.empty + other.empty,
            repeated: self.repeated + other.repeated,
            words: self.words + other.words,
            characters: self.characters + other.characters,
        }
    }

    pub(super) fn stats(self, distinct_1: Option<f64>, distinct_2: Option<f64>) -> SpeechStats {
        let mean = |sum: u64| (self.utterances > 0).then(|| sum as f64 / self.utterances as f64);
        SpeechStats {
            utterances: self.utterances,
            empty: self.empty,
            repeated: self.repeated,
            mean_words: mean(self.words),
            mean_characters: mean(self.characters),
            distinct_1,
            distinct_2,
        }
    }
}

/// Statistics of the utterances of one seat or of both, up to the deciding ones. Means and shares are `None` without
/// utterances.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpeechStats {
    /// Utterances.
    pub utterances: u64,
    /// Utterances of white space only.
    pub empty: u64,
    /// Utterances equal to an earlier one of the same game, by either seat.
    pub repeated: u64,
    /// Words of an utterance, separated by white space.
    pub mean_words: Option<f64>,
    /// Characters of an utterance.
    pub mean_characters: Option<f64>,
    /// Distinct words over all words, in lower case.
    pub distinct_1: Option<f64>,
    /// Distinct pairs of neighbouring words over all such pairs.
    pub distinct_2: Option<f64>,
}

impl SpeechStats {
    /// Repeated utterances over all, 0–1.
    pub fn repeated_share(&self) -> Option<f64> {
        (self.utterances > 0).then(|| self.repeated as f64 / self.utterances as f64)
    }
}
