//! The one referee: asked after each utterance while a game is played, and over a whole history afterwards.

use memchr::memmem::Finder;

use super::JudgeKind;
use super::forms::{QUOTES, plain_forms};
use super::lower::lower_into;
use super::prediction::{Guess, guesses};
use crate::episode::{Episode, Role, Utterance};
use crate::error::{Error, Result};
use crate::outcome::{Outcome, Verdict};
use crate::view::EpisodeView;

/// The rules for one target word.
///
/// ```
/// use spag_game::{JudgeKind, Outcome, Referee, Role};
///
/// # fn main() -> spag_game::Result<()> {
/// let referee = Referee::new(JudgeKind::Paper, "art")?;
/// assert_eq!(referee.rule(Role::Defender, "Hello!"), None);
/// assert_eq!(referee.rule(Role::Defender, "Let us start."), Some(Outcome::AttackerWins));
/// let whole_word = Referee::new(JudgeKind::WholeWord, "art")?;
/// assert_eq!(whole_word.rule(Role::Defender, "Let us start."), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Referee {
    kind: JudgeKind,
    /// Every form without quotation marks, in lower case. Those in quotation marks hold these.
    forms: Vec<String>,
    /// The forms that a search has to look for: where "cat" is found anyway, "cats" need not be.
    searched: Vec<Finder<'static>>,
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
        let forms = plain_forms(target_word);
        let searched = match kind {
            JudgeKind::Paper => without_longer(&forms),
            JudgeKind::WholeWord => forms.clone(),
        };
        let searched = searched.iter().map(|form| Finder::new(form).into_owned()).collect();
        Ok(Self { kind, forms, searched })
    }

    /// The outcome if this utterance decides the game.
    pub fn rule(&self, role: Role, content: &str) -> Option<Outcome> {
        self.rule_lower(role, &content.to_lowercase())
    }

    /// The outcome if this utterance, in lower case, decides the game.
    fn rule_lower(&self, role: Role, lower: &str) -> Option<Outcome> {
        let mut guesses = guesses(lower).peekable();
        let predicts = guesses.peek().is_some();
        match role {
            Role::Attacker => (predicts || self.utters(lower)).then_some(Outcome::AttackerBreaksRules),
            Role::Defender if predicts => Some(match guesses.any(|guess| self.is_right(guess)) {
                true => Outcome::DefenderWins,
                false => Outcome::AttackerWins,
            }),
            Role::Defender => self.utters(lower).then_some(Outcome::AttackerWins),
        }
    }

    /// The verdict over a history; utterances after the deciding one, or after `max_turns` turns, do not count.
    pub fn judge(&self, history: &[Utterance], max_turns: usize) -> Verdict {
        let mut lower = String::new();
        first_decision(history.iter(), max_turns, |u| self.rule_lower(u.role, lower_into(&mut lower, &u.content)))
    }

    /// The verdict over a history that is still in its row; `lower` is memory to work in.
    pub(super) fn judge_view(&self, episode: &EpisodeView<'_>, lower: &mut String) -> Verdict {
        first_decision(episode.history.iter(), episode.max_turns, |line| {
            self.rule_lower(line.role, lower_into(lower, &line.content.text()))
        })
    }

    /// Whether a lower-cased text holds a form of the word.
    fn utters(&self, lower: &str) -> bool {
        match self.kind {
            JudgeKind::Paper => self.searched.iter().any(|form| form.find(lower.as_bytes()).is_some()),
            // Few texts hold a form at all: those that do are looked at again.
            JudgeKind::WholeWord => self.searched.iter().zip(&self.forms).any(|(finder, form)| {
                finder.find(lower.as_bytes()).is_some()
                    && lower.match_indices(form.as_str()).any(|(at, _)| {
                        let (before, rest) = lower.split_at(at);
                        stands_alone(before.chars().next_back(), form, &rest[form.len()..])
                    })
            }),
        }
    }

    /// Whether a guess is a form of the word, plain or in quotation marks.
    fn is_right(&self, guess: Guess<'_>) -> bool {
        let closed = |form: &str| {
            QUOTES.iter().any(|q| {
                let rest = guess.text.strip_prefix(*q).and_then(|rest| rest.strip_prefix(form));
                rest.is_some_and(|rest| rest.starts_with(*q))
            })
        };
        self.forms.iter().any(|form| {
            let plain = guess.text.strip_prefix(form.as_str());
            let plain = plain.is_some_and(|rest| match self.kind {
                JudgeKind::Paper => true,
                JudgeKind::WholeWord => stands_alone(Some(guess.before), form, rest),
            });
            plain || closed(form)
        })
    }
}

/// The verdict over utterances, each of which `rule` may find to decide the game.
fn first_decision<U>(
    mut history: impl ExactSizeIterator<Item = U>,
    max_turns: usize,
    mut rule: impl FnMut(U) -> Option<Outcome>,
) -> Verdict {
    // The reference looks at one utterance even where max_turns is 0.
    let most = max_turns.saturating_mul(2).max(1);
    let tie = Verdict { outcome: Outcome::Tie, history_length: history.len().min(most) };
    let decided = history.by_ref().take(most).enumerate().find_map(|(index, utterance)| {
        let outcome = rule(utterance)?;
        Some(Verdict { outcome, history_length: index + 1 })
    });
    decided.unwrap_or(tie)
}

/// The forms that hold no other form.
fn without_longer(forms: &[String]) -> Vec<String> {
    let mut shortest: Vec<String> = Vec::new();
    for form in forms {
        if !shortest.iter().any(|found| form.contains(found.as_str())) {
            shortest.push(form.clone());
        }
    }
    shortest
}

/// Whether a form between `before` and `rest` is no part of a longer word.
fn stands_alone(before: Option<char>, form: &str, rest: &str) -> bool {
    let joined = |left: Option<char>, right: Option<char>| {
        left.is_some_and(char::is_alphanumeric) && right.is_some_and(char::is_alphanumeric)
    };
    !joined(before, form.chars().next()) && !joined(form.chars().next_back(), rest.chars().next())
}

/// Judges one episode.
///
/// # Errors
/// An empty target word, or roles that do not alternate.
pub fn judge_episode(kind: JudgeKind, episode: &Episode) -> Result<Verdict> {
    episode.check()?;
    Ok(Referee::new(kind, &episode.target_word)?.judge(&episode.history, episode.max_turns))
}
