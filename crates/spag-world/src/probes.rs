//! Questions that measure what a model knows of the world.

use rand::Rng;
use rand::seq::SliceRandom;
use spag_game::{PromptSet, Role, Utterance};

use crate::lexicon::{Entry, Lexicon};
use crate::texts;

/// A prompt and the word that should follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What the model is shown.
    pub prompt: String,
    /// The word.
    pub word: String,
}

fn draw<'a>(lexicon: &'a Lexicon, rng: &mut impl Rng) -> (&'a Entry, Vec<&'a str>) {
    let entry = &lexicon.entries()[rng.random_range(0..lexicon.entries().len())];
    let mut clues: Vec<&str> = entry.clues.iter().map(String::as_str).collect();
    clues.shuffle(rng);
    clues.truncate(3);
    (entry, clues)
}

/// Three clues in the course of a game, then the beginning of the defender's prediction.
pub fn naming_probe(lexicon: &Lexicon, prompts: &PromptSet, rng: &mut impl Rng) -> Probe {
    let (entry, clues) = draw(lexicon, rng);
    let clue = |i: usize| clues.get(i).copied().unwrap_or("");
    let history = [
        Utterance::new(Role::Attacker, texts::one_clue(clue(0), rng)),
        Utterance::new(Role::Defender, texts::hedge(rng)),
        Utterance::new(Role::Attacker, texts::ask_two(&entry.category, clue(1), clue(2), rng)),
    ];
    let prompt = prompts.playing_query(&history, &entry.word, 5);
    Probe { prompt: format!("{prompt} {}", texts::GUESS_STEM), word: entry.word.clone() }
}

/// Three clues in a plain question.
pub fn qa_probe(lexicon: &Lexicon, rng: &mut impl Rng) -> Probe {
    let (entry, clues) = draw(lexicon, rng);
    let question = format!("Which {} {}?", entry.category, clues.join(" and "));
    Probe { prompt: format!("Question: {question} Response: That is the"), word: entry.word.clone() }
}

/// An attacker's turn, begun as a question for two clues: what follows shows whether the model gives true clues.
pub fn attacker_clue_probe(lexicon: &Lexicon, prompts: &PromptSet, rng: &mut impl Rng) -> Probe {
    let (entry, _) = draw(lexicon, rng);
    let prompt = prompts.playing_query(&[], &entry.word, 5);
    let stem = format!("What do you call {} {} that", texts::article(&entry.category), entry.category);
    Probe { prompt: format!("{prompt} {stem}"), word: entry.word.clone() }
}
