//! An estimator of advantages that spag-rewards does not know: each seat's reward less the mean of the batch.

use spag_game::{Verdict, taboo};
use spag_rewards::{Advantages, Estimator, OutcomeRewards, RewardedGame, Turn};

/// The reward of the seat that spoke, less the mean of its rewards in the batch. It keeps no state between batches.
struct BatchMean;

impl Estimator for BatchMean {
    fn advantages(&mut self, games: &[RewardedGame]) -> spag_rewards::Result<Advantages> {
        let mean = |seat: usize| games.iter().map(|game| game.rewards[seat]).sum::<f64>() / games.len() as f64;
        let means = [mean(0), mean(1)];
        let mut all = Advantages::default();
        for game in games {
            all.push(game, |_, turn| Some(game.rewards[turn.seat.index()] - means[turn.seat.index()]))?;
        }
        Ok(all)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rewards = OutcomeRewards::default();
    let turns = [taboo::ATTACKER, taboo::DEFENDER].map(|seat| Turn { seat, tokens: 9 });
    let game = |ending| {
        let verdict = Verdict::of(ending, turns.len());
        RewardedGame::new(&taboo::LABELS, "apple", &verdict, turns.to_vec(), &rewards)
    };
    let advantages = BatchMean.advantages(&[game(taboo::RIGHT_GUESS), game(taboo::WRONG_GUESS)])?;
    println!("{advantages:?}");
    assert_eq!(advantages.games(), [[Some(-1.0), Some(1.0)], [Some(1.0), Some(-1.0)]]);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn advantages_are_centred() {
        super::main().unwrap();
    }
}
