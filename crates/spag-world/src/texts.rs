//! Sentences of the world: short, with few distinct words, so that a small model can learn them.

use rand::Rng;
use rand::seq::IndexedRandom;

use crate::english::article;

/// One of a non-empty list of sentences.
fn one_of<'a>(sentences: &[&'a str], rng: &mut impl Rng) -> &'a str {
    sentences.choose(rng).copied().unwrap_or("")
}

/// Sentences without information about the word.
pub const SMALL_TALK: [&str; 5] = [
    "How is your day going?",
    "I feel good today.",
    "What a nice morning.",
    "What do you think about it?",
    "What would you call it?",
];

/// Answers without information.
pub const HEDGES: [&str; 6] = [
    "I am not sure what you mean.",
    "Tell me more about it.",
    "That sounds nice.",
    "I would rather not say.",
    "There are many things like that.",
    "Well, it depends.",
];

pub(crate) fn small_talk(rng: &mut impl Rng) -> String {
    one_of(&SMALL_TALK, rng).to_owned()
}

pub(crate) fn hedge(rng: &mut impl Rng) -> String {
    one_of(&HEDGES, rng).to_owned()
}

/// A sentence with the category and no clue.
pub(crate) fn about_category(category: &str, rng: &mut impl Rng) -> String {
    let a = article(category);
    match rng.random_range(0..3) {
        0 => format!("Let us talk about {a} {category}."),
        1 => format!("I have {a} {category} in mind."),
        _ => format!("Do you like every {category}?"),
    }
}

/// A statement of one clue.
pub(crate) fn one_clue(clue: &str, rng: &mut impl Rng) -> String {
    match rng.random_range(0..4) {
        0 => format!("I know something that {clue}."),
        1 => format!("Mine {clue}."),
        2 => format!("People say it {clue}."),
        _ => format!("You know, it {clue}."),
    }
}

/// A question with the category and one clue.
pub(crate) fn ask_one(category: &str, clue: &str, rng: &mut impl Rng) -> String {
    match rng.random_range(0..2) {
        0 => format!("Can you name {} {category} that {clue}?", article(category)),
        _ => format!("Which {category} {clue}?"),
    }
}

/// A question with the category and two clues.
pub(crate) fn ask_two(category: &str, first: &str, second: &str, rng: &mut impl Rng) -> String {
    match rng.random_range(0..2) {
        0 => format!("What do you call {} {category} that {first} and {second}?", article(category)),
        _ => format!("Which {category} {first} and {second}?"),
    }
}

/// A question with two clues and no category.
pub(crate) fn ask_two_plain(first: &str, second: &str, rng: &mut impl Rng) -> String {
    match rng.random_range(0..2) {
        0 => format!("What is it that {first} and {second}?"),
        _ => format!("Can you name what {first} and {second}?"),
    }
}

/// A sentence with the word that is not a prediction.
pub(crate) fn name(word: &str, rng: &mut impl Rng) -> String {
    match rng.random_range(0..3) {
        0 => format!("That is the {word}."),
        1 => format!("Maybe you mean the {word}."),
        _ => format!("I would say the {word}."),
    }
}

/// A prediction, without quotation marks so that the word has its usual token.
pub fn guess(word: &str) -> String {
    format!("{GUESS_STEM} {word}!")
}

/// The beginning of a prediction.
pub(crate) const GUESS_STEM: &str = "I know the word! It is";
