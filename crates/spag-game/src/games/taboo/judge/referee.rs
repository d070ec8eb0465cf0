//! The referee of one target word. Rules on single utterances while a game is played, and on whole histories.

use std::ops::Range;

use memchr::memmem::Finder;

use super::JudgeKind;
use super::first_word::first_word;
use super::occurrences::Occurrences;
use super::prediction::{Guess, guesses};
use crate::ending::Ending;
use crate::episode::EpisodeView;
use crate::error::Result;
use crate::seat::Seat;
use crate::taboo::episode::empty_word;
use crate::taboo::outcome::Outcome;
use crate::taboo::plural::pluralize;
use crate::taboo::{self, BROKEN_RULE, RIGHT_GUESS, SAID_UNKNOWINGLY, TIE, WRONG_GUESS};
use crate::verdict::Verdict;

/// Quotation marks that may enclose a form.
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The forms of a target word that count as the word: the word, +"ing", +"ed" and the plural of its first word, in
/// lower case, each plain and inside "…", '…' and `…`.
///
/// The reference also takes the plural of the first word: "ices" for "ice cream".
///
/// ```
/// let forms = spag_game::word_forms("Lady");
/// assert_eq!(forms[..4], ["lady", "ladying", "ladyed", "ladies"]);
/// assert!(forms.contains(&"`ladies`".to_owned()));
/// ```
pub fn word_forms(word: &str) -> Vec<String> {
    let mut forms = plain_forms(word);
    let quoted: Vec<String> = forms.iter().flat_map(|form| QUOTES.map(|q| format!("{q}{form}{q}"))).collect();
    forms.extend(quoted);
    forms
}

/// The forms without quotation marks; the first is the word itself. A target without letters has no plural.
fn plain_forms(word: &str) -> Vec<String> {
    let word = word.to_lowercase();
    let plural = first_word(&word).map(|first| pluralize(&first));
    let (ing, ed) = (format!("{word}ing"), format!("{word}ed"));
    [word, ing, ed].into_iter().chain(plural).collect()
}

/// The rules for one target word.
///
/// ```
/// use spag_game::taboo::Outcome;
/// use spag_game::{JudgeKind, Referee, Seat, taboo};
///
/// # fn main() -> spag_game::Result<()> {
/// let referee = Referee::new(JudgeKind::Paper, "art")?;
/// assert_eq!(referee.rule(taboo::DEFENDER, "Hello!"), None);
/// assert_eq!(referee.rule(taboo::DEFENDER, "Let us start."), Some(Outcome::AttackerWins));
/// let whole_word = Referee::new(JudgeKind::WholeWord, "art")?;
/// assert_eq!(whole_word.rule(taboo::DEFENDER, "Let us start."), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Referee {
    kind: JudgeKind,
    /// The forms without quotation marks, which quoted forms contain.
    forms: Vec<String>,
    /// Searches for forms. The paper's judge needs no search for "cats" beside one for "cat".
    finders: Vec<Finder<'static>>,
}

impl Referee {
    /// The rules for `target_word`.
    ///
    /// # Errors
    /// [`Error::Item`](crate::Error::Item) if the word is empty or blank.
    pub fn new(kind: JudgeKind, target_word: &str) -> Result<Self> {
        if target_word.trim().is_empty() {
            return Err(empty_word(target_word));
        }
        let forms = plain_forms(target_word);
        let contains_earlier =
            |at: usize| kind == JudgeKind::Paper && forms[..at].iter().any(|earlier| forms[at].contains(earlier));
        let searched = (0..forms.len()).filter(|at| !contains_earlier(*at));
        let finders = searched.map(|at| Finder::new(&forms[at]).into_owned()).collect();
        Ok(Self { kind, forms, finders })
    }

    /// The outcome if this utterance decides the game.
    pub fn rule(&self, seat: Seat, content: &str) -> Option<Outcome> {
        self.ending(seat, content).map(Outcome::of)
    }

    /// How the game ends if this utterance decides it.
    pub fn ending(&self, seat: Seat, content: &str) -> Option<Ending> {
        let lower = content.to_lowercase();
        let mut guesses = guesses(&lower).peekable();
        let predicts = guesses.peek().is_some();
        match seat {
            taboo::ATTACKER => (predicts || self.utters(&lower)).then_some(BROKEN_RULE),
            _ if predicts && self.is_any_right(&lower, guesses) => Some(RIGHT_GUESS),
            _ if predicts => Some(WRONG_GUESS),
            _ => self.utters(&lower).then_some(SAID_UNKNOWINGLY),
        }
    }

    /// The verdict on an episode. Utterances after the deciding one, or after the last turn, do not count.
    pub fn judge(&self, episode: &EpisodeView<'_>) -> Verdict {
        // The reference judges one utterance even if max_turns is 0.
        let limit = episode.max_turns.saturating_mul(2).max(1).min(episode.history.len());
        let utterances = (1..).zip(episode.history.iter().take(limit));
        let mut decisions = utterances.filter_map(|(length, u)| Some((length, self.ending(u.seat, &u.content)?)));
        let (history_length, ending) = decisions.next().unwrap_or((limit, TIE));
        Verdict::of(ending, history_length)
    }

    /// Whether a lower-cased text contains a form of the word.
    fn utters(&self, lower: &str) -> bool {
        match self.kind {
            JudgeKind::Paper => self.finders.iter().any(|finder| finder.find(lower.as_bytes()).is_some()),
            JudgeKind::WholeWord => self.finders.iter().zip(&self.forms).any(|(finder, form)| {
                // Most texts contain no form, which the finder shows quickly.
                finder.find(lower.as_bytes()).is_some() && self.occurrences(form, lower).next().is_some()
            }),
        }
    }

    /// The forms of the word, without quotation marks.
    pub(super) fn forms(&self) -> &[String] {
        &self.forms
    }

    /// Where a form occurs in a lower-cased text as this judge counts it.
    pub(super) fn occurrences<'a>(&self, form: &'a str, lower: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let kind = self.kind;
        let found = lower.match_indices(form).filter(move |(at, _)| {
            let (before, rest) = lower.split_at(*at);
            kind == JudgeKind::Paper || is_whole_word(before.chars().next_back(), form, &rest[form.len()..])
        });
        found.map(|(at, form)| at..at + form.len())
    }

    /// Whether one of the guesses in a lower-cased text is a form of the word, plain or in quotation marks.
    fn is_any_right<'a>(&self, lower: &'a str, guesses: impl Iterator<Item = Guess<'a>>) -> bool {
        let forms: Vec<_> = self.forms.iter().map(|form| (form, Occurrences::new(form, lower))).collect();
        let mut guesses = guesses;
        guesses.any(|guess| {
            let at = lower.len() - guess.text.len();
            forms.iter().any(|(form, occurrences)| self.is_right(guess, at, form, occurrences))
        })
    }

    /// Whether the guess at byte `at` is this form of the word.
    pub(super) fn is_right(&self, guess: Guess<'_>, at: usize, form: &str, occurrences: &Occurrences<'_>) -> bool {
        let rest = |skipped: usize| guess.text.get(skipped + form.len()..).unwrap_or_default();
        let plain = occurrences.start_at(at)
            && (self.kind == JudgeKind::Paper || is_whole_word(Some(guess.before), form, rest(0)));
        plain || {
            let quote = QUOTES.iter().find(|quote| guess.text.starts_with(**quote));
            quote.is_some_and(|quote| occurrences.start_at(at + 1) && rest(1).starts_with(*quote))
        }
    }
}

/// Whether a form between `before` and `rest` is not part of a longer word.
fn is_whole_word(before: Option<char>, form: &str, rest: &str) -> bool {
    let joined = |left: Option<char>, right: Option<char>| {
        left.is_some_and(char::is_alphanumeric) && right.is_some_and(char::is_alphanumeric)
    };
    !joined(before, form.chars().next()) && !joined(form.chars().next_back(), rest.chars().next())
}
