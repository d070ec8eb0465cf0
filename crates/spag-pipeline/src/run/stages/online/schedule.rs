//! Which games an update plays: of which of the run's games, on which item, and who plays.

use spag_game::{GameSpec, Seat, game_seed};
use spag_rewards::RewardedGame;

use super::item_results::ItemResults;
use super::opponents::Opponents;
use crate::config::{OnlineSettings, WordOrder};
use crate::run::context::RunContext;
use crate::run::run_games::OpenGame;
use crate::seeds::stage_seed;

/// A game of an update.
pub(super) struct Scheduled {
    /// Its number in the run, item and seed.
    pub(super) spec: GameSpec,
    /// Which of the run's games it is.
    pub(super) index: usize,
    /// The seat of the policy against an opponent; `None` if it plays both.
    pub(super) learner: Option<Seat>,
}

/// The games of an update on all ranks, which all of them know.
pub(super) struct Schedule {
    first: usize,
    games: Vec<Scheduled>,
}

impl Schedule {
    /// Those of update `update`. They follow from its number, from the seed and from what came of earlier games.
    pub(super) fn new(
        run: RunContext<'_>,
        settings: &OnlineSettings,
        (opponents, items): (&Opponents, &ItemResults),
        (update, seed): (usize, u64),
    ) -> Self {
        let first = update * settings.games_per_update;
        let mut schedule = Self { first, games: Vec::with_capacity(settings.games_per_update) };
        let groups = run.config.split_games(settings.games_per_update / settings.group_size);
        for (index, (game, groups)) in run.inputs.games.iter().zip(groups).enumerate() {
            let part = |what: &str| stage_seed(seed, &game.part(&format!("update-{update}/{what}")));
            let words = match settings.words {
                WordOrder::Cycled => {
                    (0..groups).map(|group| (update * groups + group) % words_of(game).len()).collect()
                }
                WordOrder::Balanced => items.draw(index, words_of(game), groups, part("words")),
            };
            let seats = opponents.seats_of_policy(update, groups, part("seats"), game.game.labels().seats);
            for (word, learner) in words.into_iter().zip(seats) {
                for _ in 0..settings.group_size {
                    let number = first + schedule.games.len();
                    let spec = GameSpec {
                        number,
                        item: words_of(game)[word].clone(),
                        max_turns: game.rules.turns(run.config.max_turns),
                        seed: game_seed(seed, number),
                    };
                    schedule.games.push(Scheduled { spec, index, learner });
                }
            }
        }
        schedule
    }

    /// All games, in the order of their numbers.
    pub(super) fn games(&self) -> &[Scheduled] {
        &self.games
    }

    /// The game of a number.
    pub(super) fn get(&self, number: usize) -> Option<&Scheduled> {
        self.games.get(number.checked_sub(self.first)?)
    }

    /// Counts what came of the games of all ranks, each with its number.
    pub(super) fn count(&self, items: &mut ItemResults, played: &[(usize, RewardedGame)]) {
        for (scheduled, game) in played.iter().filter_map(|(number, game)| Some((self.get(*number)?, game))) {
            items.add(scheduled.index, &scheduled.spec.item, game.score_of_first());
        }
    }
}

/// The items that a game is trained on; at least one.
fn words_of(game: &OpenGame) -> &[String] {
    &game.words.training
}
