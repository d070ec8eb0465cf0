//! Sentences of the scripted players: few for the small world, more for English.

use rand::Rng;
use rand::seq::IndexedRandom;

use crate::lexicon::{Entry, Lexicon, World};
use crate::{english_texts, texts};

/// The fixed parts of English sentences, which do not depend on the word.
pub(crate) fn fixed_texts() -> impl Iterator<Item = &'static str> {
    english_texts::fixed_texts().chain([texts::GUESS_STEM])
}

/// Builds sentences about the words of a lexicon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voice<'a> {
    lexicon: &'a Lexicon,
}

impl<'a> Voice<'a> {
    pub(crate) fn new(lexicon: &'a Lexicon) -> Self {
        Self { lexicon }
    }

    pub(crate) fn small_talk(self, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::small_talk(rng),
            World::English => one_of(&english_texts::SMALL_TALK, rng),
        }
    }

    pub(crate) fn hedge(self, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::hedge(rng),
            World::English => one_of(&english_texts::HEDGES, rng),
        }
    }

    /// A sentence with the category and no clue.
    pub(crate) fn about_category(self, category: &str, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::about_category(category, rng),
            World::English => english_texts::about_category(category, self.lexicon.category_plural(category), rng),
        }
    }

    /// A statement of one clue.
    pub(crate) fn one_clue(self, clue: &str, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::one_clue(clue, rng),
            World::English => english_texts::one_clue(clue, rng),
        }
    }

    /// A question with the category and one clue.
    pub(crate) fn ask_one(self, category: &str, clue: &str, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::ask_one(category, clue, rng),
            World::English => english_texts::ask_one(category, clue, rng),
        }
    }

    /// A question with the category and two clues.
    pub(crate) fn ask_two(self, category: &str, first: &str, second: &str, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::ask_two(category, first, second, rng),
            World::English => english_texts::ask_two(category, first, second, rng),
        }
    }

    /// A question with two clues and no category.
    pub(crate) fn ask_two_plain(self, first: &str, second: &str, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::ask_two_plain(first, second, rng),
            World::English => english_texts::ask_two_plain(first, second, rng),
        }
    }

    /// A sentence with the word that is not a prediction.
    pub(crate) fn name(self, word: &str, rng: &mut impl Rng) -> String {
        match self.lexicon.world() {
            World::Small => texts::name(word, rng),
            World::English => {
                let plural = self.lexicon.get(word).and_then(|entry: &Entry| entry.plural.as_deref());
                english_texts::name(word, plural, rng)
            }
        }
    }
}

fn one_of(sentences: &[&str], rng: &mut impl Rng) -> String {
    sentences.choose(rng).copied().unwrap_or_default().to_owned()
}
