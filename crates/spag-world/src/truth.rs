//! Whether attackers tell the truth. The rules do not ask for it.

use spag_game::{Episode, Role};

use crate::lexicon::Lexicon;

/// Clues that an attacker gave, and how many of them were true of the target word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClueTruth {
    /// True clues.
    pub true_clues: usize,
    /// All clues.
    pub clues: usize,
}

/// Counts the clues in the attacker's utterances of an episode.
pub fn clue_truth(lexicon: &Lexicon, episode: &Episode) -> ClueTruth {
    let mut truth = ClueTruth::default();
    for utterance in episode.history.iter().filter(|u| u.role == Role::Attacker) {
        for clue in lexicon.clues_in(&utterance.content) {
            truth.clues += 1;
            truth.true_clues += usize::from(lexicon.clue_is_true(&episode.target_word, clue));
        }
    }
    truth
}
