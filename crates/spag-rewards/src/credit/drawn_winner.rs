//! A control: the paper's credit for a player that is drawn.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use spag_game::{EpisodeView, SEATS, Tally, Verdict, game_seed};

use super::{Credit, DecayedWinner};

/// [`DecayedWinner`] with the winner of every game replaced by a seat that is drawn with equal chances, from the seed and what was
/// said. The games that have samples are the same; what is learned from them is not about winning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnWinner {
    /// The rule for the drawn winner.
    pub rule: DecayedWinner,
    /// Seed of the draws.
    pub seed: u64,
}

impl Credit for DrawnWinner {
    fn has_samples(&self, verdict: &Verdict) -> bool {
        self.rule.has_samples(verdict)
    }

    fn rewards(&self, episode: &EpisodeView<'_>, verdict: &Verdict) -> Vec<(usize, f64)> {
        let said = episode.history.iter().map(|utterance| utterance.content.as_ref());
        let bytes = std::iter::once(episode.item.as_ref()).chain(said).flat_map(|text: &str| text.bytes().chain([0]));
        let seed = bytes.fold(self.seed, |seed, byte| game_seed(seed, usize::from(byte)));
        if ChaCha8Rng::seed_from_u64(seed).next_u32() & 1 == 0 {
            return self.rule.rewards(episode, verdict);
        }
        let mut seats = episode.history.iter().map(|utterance| utterance.seat);
        match verdict.winner().and_then(|winner| seats.find(|seat| *seat != winner)) {
            Some(loser) => self.rule.rewards(episode, &Verdict::won_by(loser, verdict.ending, verdict.history_length)),
            None => Vec::new(),
        }
    }

    /// 1: both seats are drawn equally often, whatever they won.
    fn weights(&self, _: &Tally) -> [f64; SEATS] {
        [1.0; SEATS]
    }
}

#[cfg(test)]
mod tests {
    use spag_game::{Episode, taboo};

    use super::*;
    use crate::RewardNorm;

    #[test]
    fn winners_are_drawn_by_seed_and_text_among_games_that_have_one() {
        let rule = |seed| DrawnWinner { rule: DecayedWinner { decay_weight: 0.8, norm: RewardNorm::Sum }, seed };
        let game = |number: usize| {
            let mut episode = Episode::new("apple", 5);
            let texts = [
                "a fruit".to_owned(),
                format!("a pear? {number}"),
                "red".into(),
                "I know the word! It is apple!".into(),
            ];
            for (at, text) in texts.iter().enumerate() {
                episode.push(taboo::LABELS.seats[at % 2], text);
            }
            episode
        };
        let attacker_wins = |seed, ending| {
            let games = (0..400).map(game);
            let first = games.filter(|game| {
                let rewards = rule(seed).rewards(&game.view(), &Verdict::of(ending, 4));
                assert_eq!(rewards.len(), 2, "both utterances of a seat");
                assert!((rewards[0].1 - 0.8 * rewards[1].1).abs() < 1e-12 && rewards[1].0 - rewards[0].0 == 2);
                rewards[0].0 == 0
            });
            first.map(|game| game.history[1].content.clone()).collect::<Vec<_>>()
        };
        let (won, lost) = (attacker_wins(1, taboo::WRONG_GUESS), attacker_wins(1, taboo::RIGHT_GUESS));
        // 4.5 standard deviations of 400 tosses.
        assert!(won.len().abs_diff(200) < 45 && won.len() + lost.len() == 400, "{}", won.len());
        assert_eq!(won, attacker_wins(1, taboo::WRONG_GUESS), "by the seed");
        assert_ne!(won, attacker_wins(2, taboo::WRONG_GUESS));
        for ending in [taboo::TIE, taboo::BROKEN_RULE] {
            assert!(!rule(1).has_samples(&Verdict::of(ending, 4)));
        }
    }
}
