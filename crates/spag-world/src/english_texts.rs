//! The scripted players' sentences about real words: English with articles and plurals.

use rand::Rng;
use rand::seq::IndexedRandom;

use crate::english::indefinite;

/// Sentences without information about the word.
pub(crate) const SMALL_TALK: [&str; 6] = [
    "How is your day going?",
    "I went for a long walk today.",
    "What do you think about it?",
    "Let me find better words for it.",
    "What comes to your mind first?",
    "Take your time.",
];

/// Answers without information.
pub(crate) const HEDGES: [&str; 10] = [
    "I am not sure what you mean.",
    "Tell me more about it.",
    "That could be many things.",
    "Interesting, please go on.",
    "I need another hint.",
    "Let me think about that.",
    "I have several ideas, but none is certain.",
    "Can you be more specific?",
    "Where would I find it?",
    "Well, it depends.",
];

/// Sentence templates, grouped by kind. `@` is the first gap and `%` the second.
type Frames = &'static [&'static str];

/// A category with its article.
const ABOUT_ONE: Frames = &["Let us talk about @.", "I have @ in mind.", "Mine is @.", "I am thinking of @."];
/// A category in the plural.
const ABOUT_ALL: Frames = &["Do you know much about @?", "It is one of the @.", "How many @ can you list?"];
/// A clue.
const CLUE: Frames = &[
    "I know something that @.",
    "It @.",
    "They say that it @.",
    "You should know that it @.",
    "Here is a hint: it @.",
    "In most cases it @.",
];
/// A category with its article, and a clue.
const ASK_ONE: Frames =
    &["Can you name @ that %?", "What do you call @ that %?", "I am looking for @ that %. Which one?"];
/// A category, and a clue.
const ASK_WHICH: Frames = &["Which @ %?", "Can you tell me which @ %?"];
/// Two clues.
const ASK_PLAIN: Frames = &[
    "What is it that @ and %?",
    "Can you name something that @ and %?",
    "It @. It also %. What could it be?",
    "What @ and %?",
];
/// The word with its article, or a mass noun.
const NAME: Frames =
    &["Is it @?", "Maybe you mean @.", "I would say @.", "That sounds like @.", "You may be describing @."];
/// The word in the plural, or a mass noun.
const NAME_ALL: Frames = &["Are you talking about @?", "This makes me think of @.", "We have often talked about @."];

const ALL_FRAMES: [Frames; 8] = [ABOUT_ONE, ABOUT_ALL, CLUE, ASK_ONE, ASK_WHICH, ASK_PLAIN, NAME, NAME_ALL];

/// The fixed parts of sentences, which do not depend on the word, and the conjunctions of clues.
pub(crate) fn fixed_texts() -> impl Iterator<Item = &'static str> {
    let frames = ALL_FRAMES.into_iter().flatten().flat_map(|frame| frame.split(['@', '%']));
    SMALL_TALK.into_iter().chain(HEDGES).chain(frames).chain([" and "]).filter(|text| !text.is_empty())
}

fn fill(frames: Frames, first: &str, second: &str, rng: &mut impl Rng) -> String {
    let frame = frames.choose(rng).copied().unwrap_or("@");
    let (before, rest) = frame.split_once('@').unwrap_or((frame, ""));
    match rest.split_once('%') {
        Some((between, after)) => format!("{before}{first}{between}{second}{after}"),
        None => format!("{before}{first}{rest}"),
    }
}

pub(crate) fn about_category(category: &str, plural: &str, rng: &mut impl Rng) -> String {
    match rng.random_range(0..ABOUT_ONE.len() + ABOUT_ALL.len()) {
        frame if frame < ABOUT_ONE.len() => fill(ABOUT_ONE, &indefinite(category), "", rng),
        _ => fill(ABOUT_ALL, plural, "", rng),
    }
}

pub(crate) fn one_clue(clue: &str, rng: &mut impl Rng) -> String {
    fill(CLUE, clue, "", rng)
}

pub(crate) fn ask_one(category: &str, clue: &str, rng: &mut impl Rng) -> String {
    match rng.random_range(0..ASK_ONE.len() + ASK_WHICH.len()) {
        frame if frame < ASK_ONE.len() => fill(ASK_ONE, &indefinite(category), clue, rng),
        _ => fill(ASK_WHICH, category, clue, rng),
    }
}

pub(crate) fn ask_two(category: &str, first: &str, second: &str, rng: &mut impl Rng) -> String {
    ask_one(category, &format!("{first} and {second}"), rng)
}

pub(crate) fn ask_two_plain(first: &str, second: &str, rng: &mut impl Rng) -> String {
    fill(ASK_PLAIN, first, second, rng)
}

/// A sentence with the word that is not a prediction. Mass nouns have no plural and take no article.
pub(crate) fn name(word: &str, plural: Option<&str>, rng: &mut impl Rng) -> String {
    match rng.random_range(0..NAME.len() + NAME_ALL.len()) {
        frame if frame < NAME.len() => fill(NAME, &plural.map_or(word.to_owned(), |_| indefinite(word)), "", rng),
        _ => fill(NAME_ALL, plural.unwrap_or(word), "", rng),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Many draws of a sentence, in which all frames occur.
    fn draws(draw: impl Fn(&mut ChaCha8Rng) -> String) -> Vec<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        (0..300).map(|_| draw(&mut rng)).collect()
    }

    #[test]
    fn nouns_have_the_article_or_the_plural_that_their_frame_needs() {
        let said = draws(|rng| name("otter", Some("otters"), rng));
        let (one, all): (Vec<_>, Vec<_>) = said.iter().partition(|text| text.contains(" an otter"));
        assert!(!one.is_empty() && !all.is_empty());
        assert!(all.iter().all(|text| text.contains(" otters")), "{all:?}");
        let mass = draws(|rng| name("milk", None, rng));
        assert!(mass.iter().all(|text| text.contains(" milk") && !text.contains("a milk") && !text.contains("milks")));
        let about = draws(|rng| about_category("animal", "animals", rng));
        assert!(about.iter().all(|text| text.contains(" an animal") || text.contains(" animals")), "{about:?}");
        for text in draws(|rng| ask_two("place", "is wet", "has a shore", rng)) {
            let asked = ["a place that is wet and has a shore", "hich place is wet and has a shore"];
            assert!(asked.iter().any(|part| text.contains(part)), "{text}");
        }
    }

    #[test]
    fn sentences_begin_with_a_capital_and_end_with_a_sign() {
        let mut all = draws(|rng| one_clue("is wet", rng));
        all.extend(draws(|rng| ask_two_plain("is wet", "has a shore", rng)));
        all.extend(SMALL_TALK.into_iter().chain(HEDGES).map(str::to_owned));
        for text in all {
            assert!(text.starts_with(|c: char| c.is_ascii_uppercase()) && text.ends_with(['.', '?']), "{text}");
            assert!(!text.contains(['@', '%']) && !text.contains("  "), "{text}");
        }
    }
}
