//! What the scripted players think before they speak: the words that fit each clue, and the clues that are left.

use spag_game::{Episode, taboo};

use crate::lexicon::{Entry, Lexicon};

/// The most words that a defender takes for an answer.
const FEW: usize = 6;

/// Whether scripted players say what they think, which other players do not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thoughts {
    /// They only speak.
    #[default]
    Silent,
    /// Their utterances have reasoning.
    Told,
}

/// A defender's reasoning: for each clue that was given the words that it is true of, and those that fit all.
pub(crate) fn of_defender(lexicon: &Lexicon, episode: &Episode) -> String {
    let given = episode.history.iter().filter(|said| said.seat == taboo::ATTACKER);
    let texts: Vec<&str> = given.map(|said| said.content.as_str()).collect();
    let mut known: Vec<&str> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for clue in texts.iter().flat_map(|text| lexicon.clues_in(text)) {
        if !known.contains(&clue) {
            known.push(clue);
            lines.push(of_clue(lexicon, clue));
        }
    }
    let candidates = lexicon.candidates(&texts.join(" "));
    lines.push(if candidates.len() > FEW { "Many fit.".to_owned() } else { format!("So {}.", candidates.join(" ")) });
    lines.join(" ")
}

/// A clue with the words that it is true of.
pub(crate) fn of_clue(lexicon: &Lexicon, clue: &str) -> String {
    let fitting: Vec<&str> = lexicon.words().filter(|word| lexicon.clue_is_true(word, clue)).collect();
    format!("{clue}: {}.", fitting.join(" "))
}

/// An attacker's reasoning: the clues of its word that it has not given, the next one first.
pub(crate) fn of_attacker(entry: &Entry, next: &[&str]) -> String {
    format!("{}: {}.", entry.word, next.join(", "))
}
