//! The one referee: asked after each utterance while a game is played, and over a whole history afterwards.

use std::ops::ControlFlow;

use super::JudgeKind;
use super::forms::word_forms;
use super::prediction::{predicts, predicts_right};
use crate::episode::{Episode, Role, Utterance};
use crate::error::{Error, Result};
use crate::outcome::{Outcome, Verdict};

/// The rules for one target word.
#[derive(Clone, Debug)]
pub struct Referee {
    kind: JudgeKind,
    /// Every form, in lower case.
    forms: Vec<String>,
    /// Forms none of which begins with another: enough to find any.
    shortest: Vec<String>,
}

impl Referee {
    /// The rules for `target_word`.
    ///
    /// # Errors
    /// [`Error::TargetWord`] if the word is empty or blank.
    pub fn new(kind: JudgeKind, target_word: &str) -> Result<Self> {
        if target_word.trim().is_empty() {
            return Err(Error::TargetWord { word: target_word.to_owned(), reason: "it is empty" });
        }
        let forms = word_forms(target_word);
        let mut shortest: Vec<String> = Vec::new();
        for form in &forms {
            if !shortest.iter().any(|s| form.contains(s.as_str())) {
                shortest.push(form.clone());
            }
        }
        Ok(Self { kind, forms, shortest })
    }

    /// The outcome if this utterance decides the game.
    pub fn rule(&self, role: Role, content: &str) -> Option<Outcome> {
        let lower = content.to_lowercase();
        match role {
            Role::Attacker => (self.utters(&lower) || predicts(&lower)).then_some(Outcome::AttackerBreaksRules),
            Role::Defender if predicts(&lower) => Some(match predicts_right(&lower, |rest| self.begins(rest)) {
                true => Outcome::DefenderWins,
                false => Outcome::AttackerWins,
            }),
            Role::Defender => self.utters(&lower).then_some(Outcome::AttackerWins),
        }
    }

    /// The verdict over a history; utterances after the deciding one, or after `max_turns` turns, do not count.
    pub fn judge(&self, history: &[Utterance], max_turns: usize) -> Verdict {
        // The reference looks at one utterance even where max_turns is 0.
        let most = max_turns.saturating_mul(2).max(1);
        let decided =
            history.iter().take(most).enumerate().try_for_each(|(index, u)| match self.rule(u.role, &u.content) {
                Some(outcome) => ControlFlow::Break(Verdict { outcome, history_length: index + 1 }),
                None => ControlFlow::Continue(()),
            });
        match decided {
            ControlFlow::Break(verdict) => verdict,
            ControlFlow::Continue(()) => Verdict { outcome: Outcome::Tie, history_length: history.len().min(most) },
        }
    }

    /// Whether a lower-cased text holds a form of the word.
    fn utters(&self, lower: &str) -> bool {
        match self.kind {
            JudgeKind::Paper => self.shortest.iter().any(|form| lower.contains(form.as_str())),
            JudgeKind::WholeWord => self.forms.iter().any(|form| {
                lower.match_indices(form.as_str()).any(|(at, _)| {
                    let before = lower[..at].chars().next_back();
                    !before.is_some_and(char::is_alphanumeric) && ends_word(&lower[at + form.len()..])
                })
            }),
        }
    }

    /// Whether a lower-cased text begins with a form of the word.
    fn begins(&self, lower: &str) -> bool {
        self.forms.iter().any(|form| match (self.kind, lower.strip_prefix(form.as_str())) {
            (JudgeKind::Paper, rest) => rest.is_some(),
            (JudgeKind::WholeWord, rest) => rest.is_some_and(ends_word),
        })
    }
}

/// Whether a word ends where this text begins.
fn ends_word(rest: &str) -> bool {
    !rest.chars().next().is_some_and(char::is_alphanumeric)
}

/// Judges one episode.
///
/// # Errors
/// An empty target word, or roles that do not alternate.
pub fn judge_episode(kind: JudgeKind, episode: &Episode) -> Result<Verdict> {
    episode.check()?;
    Ok(Referee::new(kind, &episode.target_word)?.judge(&episode.history, episode.max_turns))
}
