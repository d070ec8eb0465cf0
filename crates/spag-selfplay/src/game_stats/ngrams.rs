//! Distinct n-grams, a measure of how varied the utterances are.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use spag_game::Role;

/// n-grams of one length, over all games.
///
/// A distinct n-gram takes about 20 bytes, since its 64-bit hash is stored. (Among a hundred million n-grams, a collision
/// has a probability of one in 4,000.)
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NGrams {
    /// Words of an n-gram.
    length: usize,
    /// Which roles have used each n-gram.
    seen: HashMap<u64, [bool; 2]>,
    /// By role: all n-grams and the distinct ones.
    said: [u64; 2],
    distinct: [u64; 2],
}

impl NGrams {
    pub(super) fn new(length: usize) -> Self {
        Self { length, seen: HashMap::new(), said: [0; 2], distinct: [0; 2] }
    }

    /// Adds the n-grams of an utterance; none spans two utterances.
    pub(super) fn add(&mut self, role: Role, words: &[&str]) {
        let role = index(role);
        for gram in words.windows(self.length) {
            self.said[role] += 1;
            let mut hasher = DefaultHasher::new();
            gram.hash(&mut hasher);
            let speakers = self.seen.entry(hasher.finish()).or_default();
            self.distinct[role] += u64::from(!speakers[role]);
            speakers[role] = true;
        }
    }

    /// Distinct n-grams of a role over all of its n-grams; `None` without any.
    pub(super) fn share_of(&self, role: Role) -> Option<f64> {
        share(self.distinct[index(role)], self.said[index(role)])
    }

    /// Distinct n-grams over all n-grams, for both roles together.
    pub(super) fn share(&self) -> Option<f64> {
        share(self.seen.len() as u64, self.said.iter().sum())
    }
}

fn index(role: Role) -> usize {
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
    fn distinct_shares_match_counts_by_hand() {
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
        // it-has has-it it-has; it-has has-wings. "wings" alone is no pair, and no pair spans utterances.
        assert_eq!(pairs.share_of(Role::Attacker), Some(2.0 / 3.0));
        assert_eq!(pairs.share_of(Role::Defender), Some(1.0));
        assert_eq!(pairs.share(), Some(3.0 / 5.0));
    }

    #[test]
    fn word_boundaries_distinguish_pairs() {
        let mut pairs = NGrams::new(2);
        pairs.add(Role::Attacker, &["ab", "c"]);
        pairs.add(Role::Attacker, &["a", "bc"]);
        assert_eq!(pairs.share(), Some(1.0));
    }
}
