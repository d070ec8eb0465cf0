//! What a role says, in counts.

use serde::Serialize;

/// Utterances of a role, or of both.
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

    pub(super) fn summary(self, distinct_1: Option<f64>, distinct_2: Option<f64>) -> SpeechSummary {
        let mean = |sum: u64| (self.utterances > 0).then(|| sum as f64 / self.utterances as f64);
        SpeechSummary {
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

/// What a role says, or both: means and shares are missing where nothing was said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpeechSummary {
    /// Utterances.
    pub utterances: u64,
    /// Of these, without anything but white space.
    pub empty: u64,
    /// Of these, equal to an earlier one of the same game, whoever said it.
    pub repeated: u64,
    /// Words of an utterance, split on white space.
    pub mean_words: Option<f64>,
    /// Characters of an utterance.
    pub mean_characters: Option<f64>,
    /// Different words over all words, in lower case.
    pub distinct_1: Option<f64>,
    /// Different pairs of neighbouring words over all such pairs.
    pub distinct_2: Option<f64>,
}
