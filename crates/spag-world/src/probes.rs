//! Probes: prompts that measure a model's knowledge of the world.

use rand::Rng;
use spag_game::{PromptSet, Utterance, taboo};

use crate::documents::draw;
use crate::english::article;
use crate::lexicon::Lexicon;
use crate::texts;

/// A prompt and the expected word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The prompt.
    pub prompt: String,
    /// The word.
    pub word: String,
}

/// A game with three clues and the beginning of the defender's prediction.
pub fn naming_probe(lexicon: &Lexicon, prompts: &PromptSet, rng: &mut impl Rng) -> Probe {
    let (entry, clues) = draw(lexicon, rng);
    let clue = |i: usize| clues.get(i).copied().unwrap_or("");
    let history = [
        Utterance::new(taboo::ATTACKER, texts::one_clue(clue(0), rng)),
        Utterance::new(taboo::DEFENDER, texts::hedge(rng)),
        Utterance::new(taboo::ATTACKER, texts::ask_two(&entry.category, clue(1), clue(2), rng)),
    ];
    let prompt = prompts.playing_query(&history, &entry.word, 5);
    Probe { prompt: format!("{prompt} {}", texts::GUESS_STEM), word: entry.word.clone() }
}

/// Three clues in a plain question.
pub fn qa_probe(lexicon: &Lexicon, rng: &mut impl Rng) -> Probe {
    let (entry, clues) = draw(lexicon, rng);
    let question = format!("Which {} {}?", entry.category, clues.get(..3).unwrap_or(&clues).join(" and "));
    Probe { prompt: format!("Question: {question} Response: That is the"), word: entry.word.clone() }
}

/// An attacker's turn that begins a question about clues; the completion shows whether the model gives true ones.
pub fn attacker_clue_probe(lexicon: &Lexicon, prompts: &PromptSet, rng: &mut impl Rng) -> Probe {
    let (entry, _) = draw(lexicon, rng);
    let prompt = prompts.playing_query(&[], &entry.word, 5);
    let stem = format!("What do you call {} {} that", article(&entry.category), entry.category);
    Probe { prompt: format!("{prompt} {stem}"), word: entry.word.clone() }
}
