//! The target words of a run: those that are trained on, and those that are held out.

use std::collections::HashSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::seeds::stage_seed;

/// The target words of a run, each list in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// The words of all games before the evaluation.
    pub(super) training: Vec<String>,
    /// Words that are played in the evaluation only.
    pub(super) held_out: Vec<String>,
    /// The words that are held out as they are compared.
    compared: HashSet<String>,
}

/// A word without surrounding blanks and differences of case.
fn normal(word: &str) -> String {
    word.trim().to_lowercase()
}

impl Words {
    /// Holds out `share` of the distinct words, at least one if it is not 0. Which ones depends on the run's seed.
    pub(super) fn split(words: Vec<String>, share: f64, run_seed: u64) -> Self {
        let mut seen = HashSet::new();
        let mut distinct: Vec<String> =
            words.iter().map(|word| normal(word)).filter(|word| seen.insert(word.clone())).collect();
        let wanted = (share * distinct.len() as f64).round() as usize;
        let count = if share > 0.0 { wanted.max(1) } else { 0 };
        distinct.shuffle(&mut ChaCha8Rng::seed_from_u64(stage_seed(run_seed, "words/held-out")));
        let compared: HashSet<String> = distinct.into_iter().take(count).collect();
        let (held_out, training) = words.into_iter().partition(|word| compared.contains(&normal(word)));
        Self { training, held_out, compared }
    }

    /// Whether a word is held out; upper and lower case are the same.
    pub(super) fn is_held_out(&self, word: &str) -> bool {
        self.compared.contains(&normal(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("word {number}")).collect()
    }

    #[test]
    fn share_is_held_out_in_order_and_depends_on_the_seed_alone() {
        let split = Words::split(words(50), 0.2, 7);
        assert_eq!((split.training.len(), split.held_out.len()), (40, 10));
        assert_eq!(split, Words::split(words(50), 0.2, 7));
        assert_ne!(split, Words::split(words(50), 0.2, 8));
        let mut all = words(50);
        all.retain(|word| !split.held_out.contains(word));
        assert_eq!(all, split.training);
        assert!(split.is_held_out(&format!(" {} ", split.held_out[3].to_uppercase())));
        assert!(!split.is_held_out(&split.training[0]));
        // A word that is repeated is in one of the lists only.
        let twice: Vec<String> =
            words(50).into_iter().chain(words(50).iter().map(|word| word.to_uppercase())).collect();
        let again = Words::split(twice, 0.2, 7);
        assert_eq!((again.training.len(), again.held_out.len()), (80, 20));
        assert!(!again.training.iter().any(|word| again.is_held_out(word)));
    }

    #[test]
    fn small_share_holds_out_one_word_and_none_holds_out_none() {
        assert_eq!(Words::split(words(5), 0.01, 0).held_out.len(), 1);
        let all = Words::split(words(5), 0.0, 0);
        assert_eq!((all.training, all.held_out), (words(5), Vec::new()));
    }
}
