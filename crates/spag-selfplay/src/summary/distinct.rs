//! Distinct n-grams: how much of what is said is said for the first time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use spag_game::Role;

/// n-grams of one length, over all games.
///
/// Memory grows with the distinct ones: about 20 bytes each, since a hash of 64 bits stands for an n-gram. (Among
/// a hundred million, two fall together with a probability of one in 4,000.)
#[derive(Clone, Debug)]
pub(super) struct NGrams {
    /// Words of each.
    length: usize,
    /// Who has said it.
    seen: HashMap<u64, Speakers>,
    /// By role: how many were said, and how many of them were different.
    said: [u64; 2],
    different: [u64; 2],
}

/// Which of the roles, by their place.
type Speakers = [bool; 2];

impl NGrams {
    pub(super) fn new(length: usize) -> Self {
        Self { length, seen: HashMap::new(), said: [0; 2], different: [0; 2] }
    }

    /// Adds the n-grams of an utterance; none goes beyond it.
    pub(super) fn add(&mut self, role: Role, words: &[&str]) {
        let role = place(role);
        for gram in words.windows(self.length) {
            self.said[role] += 1;
            let mut hasher = DefaultHasher::new();
            gram.hash(&mut hasher);
            let speakers = self.seen.entry(hasher.finish()).or_default();
            self.different[role] += u64::from(!speakers[role]);
            speakers[role] = true;
        }
    }

    /// Distinct ones of a role over all of it; nothing where none was said.
    pub(super) fn share_of(&self, role: Role) -> Option<f64> {
        share(self.different[place(role)], self.said[place(role)])
    }

    /// Distinct ones over all, whoever said them.
    pub(super) fn share(&self) -> Option<f64> {
        share(self.seen.len() as u64, self.said.iter().sum())
    }
}

fn place(role: Role) -> usize {
    match role {
        Role::Attacker => 0,
        Role::Defender => 1,
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_by_hand() {
        let (mut single, mut pairs) = (NGrams::new(1), NGrams::new(2));
        assert_eq!((single.share(), pairs.share_of(Role::Attacker)), (None, None));
        for (role, text) in [
            (Role::Attacker, "it has it has"),
            (Role::Defender, "it has wings"),
            (Role::Attacker, "wings"),
            (Role::Defender, ""),
        ] {
            let words: Vec<&str> = text.split_whitespace().collect();
            single.add(role, &words);
            pairs.add(role, &words);
        }
        // The attacker: it has it has wings. The defender: it has wings.
        assert_eq!(single.share_of(Role::Attacker), Some(3.0 / 5.0));
        assert_eq!(single.share_of(Role::Defender), Some(1.0));
        assert_eq!(single.share(), Some(3.0 / 8.0));
        // it-has has-it it-has; it-has has-wings. "wings" alone is no pair, and none goes beyond an utterance.
        assert_eq!(pairs.share_of(Role::Attacker), Some(2.0 / 3.0));
        assert_eq!(pairs.share_of(Role::Defender), Some(1.0));
        assert_eq!(pairs.share(), Some(3.0 / 5.0));
    }

    #[test]
    fn words_are_not_run_together() {
        let mut pairs = NGrams::new(2);
        pairs.add(Role::Attacker, &["ab", "c"]);
        pairs.add(Role::Attacker, &["a", "bc"]);
        assert_eq!(pairs.share(), Some(1.0));
    }
}
