//! Which games an update plays: of which of the run's games, on which item, and who plays.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
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

/// The games of an update on all ranks, which all of them know, in the order of their numbers.
#[derive(Default)]
pub(super) struct Schedule {
    games: Vec<Scheduled>,
}

impl Schedule {
    /// Adds `groups` groups to update `update`, as its batch `batch`: the first one, or one that makes up for games that are left out.
    /// They follow from these numbers, from the seed and from what came of earlier games. Returns what was added.
    pub(super) fn add(
        &mut self,
        run: RunContext<'_>,
        settings: &OnlineSettings,
        (opponents, items): (&Opponents, &ItemResults),
        (update, batch, groups): (usize, usize, usize),
        seed: u64,
    ) -> &[Scheduled] {
        let before = self.games.len();
        let mut number = (update * (1 + settings.signal.resample) + batch) * settings.games_per_update;
        let all = run.config.split_games(groups);
        for (index, (game, groups)) in run.inputs.games.iter().zip(all).enumerate() {
            let batch_name = if batch == 0 { String::new() } else { format!("more-{batch}/") };
            let part = |what: &str| stage_seed(seed, &game.part(&format!("update-{update}/{batch_name}{what}")));
            let words = match (settings.words, batch) {
                (WordOrder::Cycled, 0) => {
                    (0..groups).map(|group| (update * groups + group) % words_of(game).len()).collect()
                }
                (WordOrder::Cycled, _) => drawn(words_of(game).len(), groups, part("words")),
                (WordOrder::Balanced, _) => items.draw(index, words_of(game), groups, part("words")),
            };
            let seats = opponents.seats_of_policy(update, groups, part("seats"), game.game.labels().seats);
            for (word, learner) in words.into_iter().zip(seats) {
                let deal = game_seed(seed, number);
                for _ in 0..settings.group_size {
                    let own = game_seed(seed, number);
                    let spec = GameSpec {
                        number,
                        item: words_of(game)[word].clone(),
                        max_turns: game.rules.turns(run.config.max_turns),
                        seed: deal,
                        sampling_seed: Some(own).filter(|own| *own != deal),
                    };
                    self.games.push(Scheduled { spec, index, learner });
                    number += 1;
                }
            }
        }
        &self.games[before..]
    }

    /// The game of a number.
    pub(super) fn get(&self, number: usize) -> Option<&Scheduled> {
        find(&self.games, number)
    }

    /// Counts what came of the games of all ranks, each with its number.
    pub(super) fn count(&self, items: &mut ItemResults, played: &[(usize, RewardedGame)]) {
        for (scheduled, game) in played.iter().filter_map(|(number, game)| Some((self.get(*number)?, game))) {
            items.add(scheduled.index, &scheduled.spec.item, game.score_of_first());
        }
    }
}

/// The game of a number among games in the order of theirs.
pub(super) fn find(games: &[Scheduled], number: usize) -> Option<&Scheduled> {
    let at = games.binary_search_by_key(&number, |game| game.spec.number).ok()?;
    games.get(at)
}

/// The items that a game is trained on; at least one.
fn words_of(game: &OpenGame) -> &[String] {
    &game.words.training
}

/// The indices of `count` of `words` words, drawn alike.
fn drawn(words: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.random_range(0..words)).collect()
}
