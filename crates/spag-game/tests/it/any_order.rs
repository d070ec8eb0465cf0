//! Games do not depend on the order of replies, nor on how many are played at a time.

use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_game::taboo::Rules;
use spag_game::{
    AfterDecision, CollectedGames, GameSpec, PlayConfig, Policy, PolicyError, PollMode, PromptSet, Reply, Seats,
    TurnFailure, TurnRequest, game_seed, play_games, taboo,
};

/// The utterance of a turn, which depends on its seed alone: talk, the word, a prediction, or a failure.
fn utterance(turn: &TurnRequest<'_>) -> Result<String, TurnFailure> {
    match turn.seed % 16 {
        0 => Err(TurnFailure::new(format!("no utterance {}", turn.episode.history.len()))),
        1 => Ok("tea".into()),
        2 if turn.seat == taboo::DEFENDER => Ok("I know the word! It is tea!".into()),
        3 if turn.seat == taboo::DEFENDER => Ok("I know the word! It is milk!".into()),
        _ => Ok(format!("{} {}", turn.seed, turn.prompt.text().len())),
    }
}

/// Replies in random order, at random times.
struct Erratic {
    rng: ChaCha8Rng,
    open: Vec<Reply>,
}

impl Erratic {
    fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), open: Vec::new() }
    }
}

impl Policy for Erratic {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        assert!(self.open.iter().all(|open| open.number != turn.number), "one turn of a game at a time");
        self.open.push(Reply { number: turn.number, utterance: utterance(turn).map(Into::into) });
        Ok(())
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PolicyError> {
        self.open.shuffle(&mut self.rng);
        let least = if mode == PollMode::Blocking { 1 } else { 0 };
        let ready = self.rng.random_range(least..=self.open.len());
        Ok(self.open.drain(..ready).collect())
    }
}

fn play(seats: Seats<'_>, games_in_flight: usize, after_decision: AfterDecision) -> CollectedGames {
    let specs = (0..40).map(|number| GameSpec {
        number,
        item: "tea".into(),
        max_turns: 3,
        seed: game_seed(3, number),
        sampling_seed: None,
    });
    let config = PlayConfig { games_in_flight, max_failed_in_a_row: usize::MAX, ..PlayConfig::default() };
    let mut games = CollectedGames::default();
    let (prompts, rules) = (PromptSet::default(), Rules { after_decision, ..Rules::default() });
    play_games(&rules.game(&prompts), specs, seats, &config, &mut games).unwrap();
    games.finished.sort_by_key(|game| game.number);
    games.failed.sort_by_key(|game| game.number);
    games
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn games_do_not_depend_on_the_order_of_replies(seed in any::<u64>(), in_flight in 1usize..60, play_on in any::<bool>()) {
        let after = if play_on { AfterDecision::PlayOn } else { AfterDecision::Stop };
        let one_by_one = play(Seats::SelfPlay(&mut Erratic::new(0)), 1, after);
        prop_assert_eq!(one_by_one.finished.len() + one_by_one.failed.len(), 40);
        prop_assert!(!one_by_one.failed.is_empty() && one_by_one.finished.len() > 10);
        prop_assert_eq!(&play(Seats::SelfPlay(&mut Erratic::new(seed)), in_flight, after), &one_by_one);
        let (mut attacker, mut defender) = (Erratic::new(seed), Erratic::new(seed ^ 1));
        let seats = Seats::Versus([&mut attacker, &mut defender]);
        prop_assert_eq!(&play(seats, in_flight, after), &one_by_one);
    }
}
