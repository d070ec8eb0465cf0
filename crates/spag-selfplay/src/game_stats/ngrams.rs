//! Distinct n-grams, a measure of how varied the utterances are.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use spag_game::{SEATS, Seat};

/// n-grams of one length, over all games.
///
/// A distinct n-gram takes about 20 bytes, since its 64-bit hash is stored. (Among a hundred million n-grams, a collision
/// has a probability of one in 4,000.)
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NGrams {
    /// Words of an n-gram.
    length: usize,
    /// Which roles have used each n-gram.
    seen: HashMap<u64, [bool; SEATS]>,
    /// By seat: all n-grams and the distinct ones.
    said: [u64; SEATS],
    distinct: [u64; SEATS],
}

impl NGrams {
    pub(super) fn new(length: usize) -> Self {
        Self { length, seen: HashMap::new(), said: [0; SEATS], distinct: [0; SEATS] }
    }

    /// Adds the n-grams of an utterance; none spans two utterances.
    pub(super) fn add(&mut self, seat: Seat, words: &[&str]) {
        let seat = seat.index();
        for gram in words.windows(self.length) {
            self.said[seat] += 1;
            let mut hasher = DefaultHasher::new();
            gram.hash(&mut hasher);
            let speakers = self.seen.entry(hasher.finish()).or_default();
            self.distinct[seat] += u64::from(!speakers[seat]);
            speakers[seat] = true;
        }
    }

    /// Distinct n-grams of a seat over all of its n-grams; `None` without any.
    pub(super) fn share_of(&self, seat: Seat) -> Option<f64> {
        share(self.distinct[seat.index()], self.said[seat.index()])
    }

    /// Distinct n-grams over all n-grams, for both roles together.
    pub(super) fn share(&self) -> Option<f64> {
        share(self.seen.len() as u64, self.said.iter().sum())
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use spag_game::taboo;

    use super::*;

    #[test]
    fn distinct_shares_match_counts_by_hand() {
        let (mut single, mut pairs) = (NGrams::new(1), NGrams::new(2));
        assert_eq!((single.share(), pairs.share_of(taboo::ATTACKER)), (None, None));
        for (seat, text) in [
            (taboo::ATTACKER, "it has it has"),
            (taboo::DEFENDER, "it has wings"),
            (taboo::ATTACKER, "wings"),
            (taboo::DEFENDER, ""),
        ] {
            let words: Vec<&str> = text.split_whitespace().collect();
            single.add(seat, &words);
            pairs.add(seat, &words);
        }
        // The attacker: it has it has wings. The defender: it has wings.
        assert_eq!(single.share_of(taboo::ATTACKER), Some(3.0 / 5.0));
        assert_eq!(single.share_of(taboo::DEFENDER), Some(1.0));
        assert_eq!(single.share(), Some(3.0 / 8.0));
        // it-has has-it it-has; it-has has-wings. "wings" alone is no pair, and no pair spans utterances.
        assert_eq!(pairs.share_of(taboo::ATTACKER), Some(2.0 / 3.0));
        assert_eq!(pairs.share_of(taboo::DEFENDER), Some(1.0));
        assert_eq!(pairs.share(), Some(3.0 / 5.0));
    }

    #[test]
    fn word_boundaries_distinguish_pairs() {
        let mut pairs = NGrams::new(2);
        pairs.add(taboo::ATTACKER, &["ab", "c"]);
        pairs.add(taboo::ATTACKER, &["a", "bc"]);
        assert_eq!(pairs.share(), Some(1.0));
    }
}
