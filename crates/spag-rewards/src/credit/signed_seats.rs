//! Rewards of both signs, for offline training.

use spag_game::{EpisodeView, Play, SEATS, Tally, Verdict};

use super::{Credit, discounted_rewards};
use crate::RewardNorm;

/// The utterances of a seat share A = R − b as [`discounted_rewards`] divides it, where R is 1 for the winner, −1 for the loser
/// and 0 in a tie, and b is the mean R of the seat in all games. So losers learn what not to say, and no seat is rewarded for being
/// the easier one. [`Signed`](crate::Signed) is the same with running means. A game with a broken rule has no samples and does not
/// count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignedSeats {
    /// γ > 0: an utterance's share is γ times that of the seat's next one.
    pub decay_weight: f64,
    /// The scale of a seat's shares.
    pub norm: RewardNorm,
}

/// [`SignedSeats`] with the mean rewards of all games.
struct WithMeans {
    rule: SignedSeats,
    means: [f64; SEATS],
}

impl Credit for SignedSeats {
    fn has_samples(&self, verdict: &Verdict) -> bool {
        verdict.ending.play == Play::ByTheRules
    }

    fn rewards(&self, episode: &EpisodeView<'_>, verdict: &Verdict) -> Vec<(usize, f64)> {
        WithMeans { rule: *self, means: [0.0; SEATS] }.rewards(episode, verdict)
    }

    fn counted(&self, games: &Tally) -> Option<Box<dyn Credit>> {
        let seats = games.labels().seats;
        let by_the_rules = games.games() - games.broken_rules();
        let wins = seats.map(|seat| games.rewarded_wins(seat) as f64);
        let total: f64 = wins.iter().sum();
        let mean = |won: f64| (won - (total - won)) / by_the_rules.max(1) as f64;
        Some(Box::new(WithMeans { rule: *self, means: wins.map(mean) }))
    }
}

impl Credit for WithMeans {
    fn has_samples(&self, verdict: &Verdict) -> bool {
        self.rule.has_samples(verdict)
    }

    fn rewards(&self, episode: &EpisodeView<'_>, verdict: &Verdict) -> Vec<(usize, f64)> {
        let counted = &episode.history[..verdict.history_length.min(episode.history.len())];
        let mut rewards = vec![0.0; counted.len()];
        for (seat, mean) in self.means.iter().enumerate() {
            let own: Vec<usize> = (0..counted.len()).filter(|at| counted[*at].seat.index() == seat).collect();
            let reward =
                verdict.rewarded_winner().map_or(0.0, |winner| if winner.index() == seat { 1.0 } else { -1.0 });
            let shares = discounted_rewards(own.len(), self.rule.decay_weight, self.rule.norm);
            own.into_iter().zip(shares).for_each(|(at, share)| rewards[at] = (reward - mean) * share);
        }
        rewards.into_iter().enumerate().filter(|(_, reward)| *reward != 0.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use spag_game::{Episode, taboo};

    use super::*;
    use crate::credit_games;

    #[test]
    fn rewards_of_a_seat_sum_to_zero_over_games_of_one_length() {
        let game = spag_game::Taboo::default();
        let endings = [taboo::RIGHT_GUESS, taboo::WRONG_GUESS, taboo::WRONG_GUESS, taboo::TIE, taboo::BROKEN_RULE];
        let mut episode = Episode::new("apple", 5);
        for (at, text) in ["a fruit", "a pear?", "red", "I know the word! It is plum!"].into_iter().enumerate() {
            episode.push(taboo::LABELS.seats[at % 2], text);
        }
        let games: Vec<_> = endings.into_iter().map(|ending| (&episode, Verdict::of(ending, 4))).collect();
        let rule = SignedSeats { decay_weight: 0.5, norm: RewardNorm::Sum };
        let samples = credit_games(&game, &games, &rule, (0, &crate::SampleReasoning::default())).unwrap().samples;
        // Wins 1 : 2 and a tie of four games: means of 1/4 and −1/4.
        let of = |seat: usize| -> Vec<f64> {
            let own = samples.iter().filter(|sample| sample.seat.is_some_and(|of| of.index() == seat));
            own.map(|sample| sample.reward).collect()
        };
        let shares = |rewards: [f64; 4]| -> Vec<f64> {
            rewards.into_iter().flat_map(|reward| [1.0 / 3.0, 2.0 / 3.0].map(|share| reward * share)).collect()
        };
        for (seat, rewards) in [[-1.25, 0.75, 0.75, -0.25], [1.25, -0.75, -0.75, 0.25]].into_iter().enumerate() {
            let (found, expected) = (of(seat), shares(rewards));
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
        }
        assert!(samples.iter().all(|sample| sample.weight == 1.0));
    }
}
