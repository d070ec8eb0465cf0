//! A control: games whose winners are drawn.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use spag_game::{Labels, game_seed};

use super::{OutcomeRewards, RewardedGame};

/// Replaces the outcome of every game, ties and broken rules included, by a win of a seat that is drawn with equal chances, and
/// keeps everything else. What an estimator learns from such games is not about play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomWinner {
    /// Seed of the draws.
    pub seed: u64,
}

impl RandomWinner {
    /// A game of `labels` with a drawn winner. `number` is that of the game in the run: the same seed and number draw the same
    /// seat.
    pub fn replace(
        &self,
        game: RewardedGame,
        number: usize,
        labels: &Labels,
        rewards: &OutcomeRewards,
    ) -> RewardedGame {
        let drawn = ChaCha8Rng::seed_from_u64(game_seed(self.seed, number)).next_u32() & 1;
        let winner = labels.seats[drawn as usize];
        let rewards = labels.seats.map(|seat| if seat == winner { rewards.win } else { rewards.loss });
        RewardedGame { rewards, winner: Some(winner), ..game }
    }
}
