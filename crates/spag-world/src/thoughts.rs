//! What the scripted players think before they speak: the words that fit each clue, and the clues that are left.

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use spag_game::{Episode, taboo};
use spag_io::{ReasoningRule, ReasoningTags};

use crate::documents::draw;
use crate::lexicon::{Entry, Lexicon};

/// The most words that a defender takes for an answer.
const FEW: usize = 6;
/// The most words of a clue that are listed.
const LISTED: usize = 12;
/// The most clues that an attacker plans.
const PLANNED: usize = 4;
/// Words that a question offers.
const CHOICES: usize = 4;

/// Whether scripted players say what they think, which other players do not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thoughts {
    /// They only speak.
    #[default]
    Silent,
    /// Their utterances have reasoning.
    Told,
}

/// A defender's reasoning: for each clue, as they were given, the words that it is true of, and those that fit all.
pub(crate) fn of_defender(lexicon: &Lexicon, episode: &Episode) -> String {
    let given = episode.history.iter().filter(|said| said.seat == taboo::ATTACKER);
    let texts: Vec<&str> = given.map(|said| said.content.as_str()).collect();
    let in_order = |text: &&str| {
        let (mut clues, lower) = (lexicon.clues_in(text), text.to_lowercase());
        clues.sort_by_key(|clue| lower.find(clue));
        clues
    };
    let mut lines: Vec<String> = texts.iter().flat_map(in_order).map(|clue| of_clue(lexicon, clue)).collect();
    let candidates = lexicon.candidates(&texts.join(" "));
    lines.push(if candidates.len() > FEW { "Many fit.".to_owned() } else { format!("So {}.", candidates.join(" ")) });
    lines.join(" ")
}

/// A clue with the words that it is true of.
pub(crate) fn of_clue(lexicon: &Lexicon, clue: &str) -> String {
    let fitting: Vec<&str> = lexicon.words().filter(|word| lexicon.clue_is_true(word, clue)).collect();
    let words = if fitting.len() > LISTED { "many".to_owned() } else { fitting.join(" ") };
    format!("It {clue}: {words}.")
}

/// An attacker's reasoning: clues of its word, the next one first and those that it has given last.
pub(crate) fn of_attacker(entry: &Entry, next: &[&str]) -> String {
    format!("The {}: {}.", entry.word, next[..next.len().min(PLANNED)].join(", "))
}

/// How a question with an answer that is thought about begins; without it, the same question is answered at once.
pub const THINK_FIRST: &str = "Think first.";

/// A question that its clues decide, asked at once or to be thought about: a document for the base model.
pub(crate) fn question(lexicon: &Lexicon, tags: &ReasoningTags, rng: &mut impl Rng) -> String {
    let (entry, clues) = draw(lexicon, rng);
    let Question { prompt, reasoning, answer } = match rng.random_range(0..4) {
        0 => which(lexicon, entry, Holds::Yes, rng),
        1 | 2 => which(lexicon, entry, Holds::No, rng),
        _ => what_else(lexicon, entry, &clues),
    };
    let rule = ReasoningRule::Think(tags.clone());
    if rng.random::<bool>() {
        format!("{THINK_FIRST} {prompt} {}", rule.join(Some(&reasoning), &answer))
    } else {
        format!("{prompt} {answer}")
    }
}

struct Question {
    prompt: String,
    reasoning: String,
    answer: String,
}

/// Whether the asked clue holds for the right answer.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Yes,
    No,
}

/// Which of four words has a clue, or lacks it.
fn which(lexicon: &Lexicon, entry: &Entry, holds: Holds, rng: &mut impl Rng) -> Question {
    let of_category = || lexicon.entries().iter().filter(|other| other.category == entry.category);
    let fits = |other: &Entry, clue: &str| other.clues.iter().any(|own| own == clue);
    let others = |clue: &str| -> Vec<&str> {
        let wrong = of_category().filter(|other| other.word != entry.word && fits(other, clue) != fits(entry, clue));
        wrong.map(|other| other.word.as_str()).collect()
    };
    let mut asked: Vec<&str> = of_category().flat_map(|other| &other.clues).map(String::as_str).collect();
    asked.retain(|clue| fits(entry, clue) == (holds == Holds::Yes) && others(clue).len() >= CHOICES - 1);
    let clue = asked.choose(rng).copied().unwrap_or_default();
    let mut choices: Vec<&str> = others(clue).choose_multiple(rng, CHOICES - 1).copied().collect();
    choices.push(&entry.word);
    choices.shuffle(rng);
    let prompt = match holds {
        Holds::Yes => which_has(&entry.category, clue, &listed(&choices)),
        Holds::No => which_has_not(&entry.category, clue, &listed(&choices)),
    };
    // The choices again after the list: each can be looked up in what is before it.
    let found = match holds {
        Holds::Yes => "fits",
        Holds::No => "does not fit",
    };
    let reasoning = format!("{} Of {}, {} {found}.", of_clue(lexicon, clue), listed(&choices), entry.word);
    Question { prompt, reasoning, answer: format!("That is the {}.", entry.word) }
}

/// Three clues identify a word that is not named, and the fourth is asked.
fn what_else(lexicon: &Lexicon, entry: &Entry, clues: &[&str]) -> Question {
    let (given, left) = clues.split_at(clues.len().min(3));
    let lists: Vec<String> = given.iter().map(|clue| of_clue(lexicon, clue)).collect();
    let reasoning = format!("{} So {}. {}", lists.join(" "), entry.word, of_attacker(entry, left));
    let answer = left.first().map_or_else(|| format!("It is the {}.", entry.word), |clue| format!("It {clue}."));
    Question { prompt: what_else_holds(&entry.category, given), reasoning, answer }
}

/// The question which of some words has a clue; `choices` as [`listed`].
pub fn which_has(category: &str, clue: &str, choices: &str) -> String {
    format!("Question: Which {category} {clue}: {choices}? Response:")
}

/// The question which of some words lacks a clue; `choices` as [`listed`].
pub fn which_has_not(category: &str, clue: &str, choices: &str) -> String {
    format!("Question: Which {category} is not one that {clue}: {choices}? Response:")
}

/// The question what else is true of a word that clues describe.
pub fn what_else_holds(category: &str, given: &[&str]) -> String {
    format!("Question: Which {category} {}, and what else? Response:", given.join(" and "))
}

/// Words as a question lists them: `a, b or c`.
pub fn listed(choices: &[&str]) -> String {
    match choices.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        Some((last, _)) => (*last).to_owned(),
        None => String::new(),
    }
}
