//! Statistics of reasoning.

use serde::{Deserialize, Serialize};
use spag_game::ReasoningEnd;

/// Sums over the utterances of one seat or of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Thought {
    utterances: u64,
    thought: u64,
    characters: u64,
    forced: u64,
    unfinished: u64,
}

impl Thought {
    pub(super) fn add(&mut self, reasoning: Option<&str>, end: Option<ReasoningEnd>) {
        self.utterances += 1;
        self.thought += u64::from(reasoning.is_some());
        self.characters += reasoning.map_or(0, |text| text.chars().count() as u64);
        self.forced += u64::from(end == Some(ReasoningEnd::Forced));
        self.unfinished += u64::from(end == Some(ReasoningEnd::Unfinished));
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            utterances: self.utterances + other.utterances,
            thought: self.thought + other.thought,
            characters: self.characters + other.characters,
            forced: self.forced + other.forced,
            unfinished: self.unfinished + other.unfinished,
        }
    }

    pub(super) fn stats(self) -> Option<ReasoningStats> {
        (self.thought + self.forced + self.unfinished > 0).then(|| self.shares())
    }

    fn shares(self) -> ReasoningStats {
        let mean = |sum: u64| sum as f64 / self.utterances as f64;
        ReasoningStats {
            characters: mean(self.characters),
            empty: mean(self.utterances - self.thought),
            forced: mean(self.forced),
            unfinished: mean(self.unfinished),
        }
    }
}

/// How the players of games thought before their utterances, of which there is at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReasoningStats {
    /// Characters of reasoning before an utterance on average, 0 where there is none.
    pub characters: f64,
    /// Utterances without reasoning among all, 0–1.
    pub empty: f64,
    /// Those whose reasoning the engine ended, since its budget was used up.
    pub forced: f64,
    /// Those whose completion ended within reasoning or with it, so that nothing was said.
    pub unfinished: f64,
}

impl ReasoningStats {
    /// Those of texts, at least one, each with the reasoning before it and how that ended.
    pub fn of<'a>(texts: impl IntoIterator<Item = (Option<&'a str>, Option<ReasoningEnd>)>) -> Self {
        let mut sums = Thought::default();
        texts.into_iter().for_each(|(reasoning, end)| sums.add(reasoning, end));
        sums.shares()
    }
}
