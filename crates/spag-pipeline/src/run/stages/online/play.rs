//! The games of an update.

use serde::{Deserialize, Serialize};
use spag_dist::gather_texts;
use spag_game::{CollectedGames, FinishedGame, GameSpec, PlayConfig, Seats, game_seed, play_games};
use spag_model::FinishReason;
use spag_rewards::advantage::{Estimator, Offence, RewardedGame, RewardedTurn};
use spag_selfplay::{ModelPlayer, SampledTurn};

use crate::config::OnlineSettings;
use crate::error::{Error, Result};
use crate::run::context::RunContext;

/// The games of an update on this rank, in their order.
pub(super) struct Batch {
    pub(super) games: Vec<Played>,
    /// Games without an end, on this rank.
    pub(super) failed: usize,
}

/// A game with the tokens of its turns.
pub(super) struct Played {
    pub(super) game: FinishedGame,
    pub(super) turns: Vec<SampledTurn>,
    /// As the estimator sees it.
    pub(super) rewarded: RewardedGame,
}

/// A game with its number, for the other ranks.
#[derive(Serialize, Deserialize)]
struct Numbered {
    game: usize,
    rewarded: RewardedGame,
}

impl Batch {
    /// Plays this rank's share of the games of an update. Their items and seeds follow from their numbers in the run.
    pub(super) fn play(
        run: RunContext<'_>,
        settings: &OnlineSettings,
        player: &mut ModelPlayer,
        update: usize,
        seed: u64,
    ) -> Result<Self> {
        let RunContext { config, ranks, inputs, .. } = run;
        let (words, max_turns) = (&inputs.words.training, config.rules.turns(config.max_turns));
        let first = update * settings.games_per_update;
        let specs = (first..first + settings.games_per_update)
            .filter(|game| game % ranks.group.size() == ranks.group.rank())
            .map(|game| {
                let item = words[game / settings.group_size % words.len()].clone();
                GameSpec { game, item, max_turns, seed: game_seed(seed, game) }
            });
        let play = PlayConfig {
            games_in_flight: config.self_play.games_in_flight(),
            max_failed_in_a_row: config.self_play.max_failed_in_a_row,
            tokens: config.self_play.record_tokens.into(),
        };
        let mut games = CollectedGames::default();
        play_games(&*inputs.game, specs, Seats::SelfPlay(player), &play, &mut games)?;
        let failed = games.failed.len();
        for failed in &games.failed {
            player.take_turns(failed.game);
        }
        games.finished.sort_by_key(|game| game.game);
        let played = |game: FinishedGame| {
            let turns = player.take_turns(game.game);
            let rewarded = rewarded(run, settings, &game, &turns);
            Played { game, turns, rewarded }
        };
        let games: Vec<Played> = { games.finished }.into_iter().map(played).collect();
        Ok(Self { games, failed })
    }

    /// The advantages of the utterances of this rank's games. All ranks estimate those of all games, so that their baselines
    /// agree.
    pub(super) fn advantages(&self, run: RunContext<'_>, estimator: &mut dyn Estimator) -> Result<Vec<Vec<Option<f64>>>> {
        let numbered = |played: &Played| Numbered { game: played.game.game, rewarded: played.rewarded.clone() };
        let own: Vec<Numbered> = self.games.iter().map(numbered).collect();
        let text = serde_json::to_string(&own).map_err(Error::exchange)?;
        let mut all: Vec<(usize, RewardedGame)> = Vec::new();
        for text in gather_texts(&*run.ranks.group, &text)? {
            let games: Vec<Numbered> = serde_json::from_str(&text).map_err(Error::exchange)?;
            all.extend(games.into_iter().map(|one| (one.game, one.rewarded)));
        }
        all.sort_by_key(|(game, _)| *game);
        let (numbers, games): (Vec<usize>, Vec<RewardedGame>) = all.into_iter().unzip();
        let advantages = estimator.advantages(&games)?;
        let of_own = |played: &Played| {
            let at = numbers.binary_search(&played.game.game).ok();
            at.and_then(|at| advantages.get(at).cloned()).unwrap_or_default()
        };
        Ok(self.games.iter().map(of_own).collect())
    }
}

/// A game as the estimator sees it.
fn rewarded(
    run: RunContext<'_>,
    settings: &OnlineSettings,
    game: &FinishedGame,
    turns: &[SampledTurn],
) -> RewardedGame {
    let labels = run.inputs.game.labels();
    let offence = game.episode.history.iter().zip(turns).find_map(|(said, turn)| {
        let is_empty = said.content.trim().is_empty();
        (is_empty || turn.finish == FinishReason::Length).then_some(Offence { seat: turn.seat })
    });
    let rewards = settings.outcomes.rewards(&game.verdict, labels, offence);
    let turns = turns.iter().map(|turn| RewardedTurn { seat: turn.seat, tokens: turn.generation.token_ids.len() });
    RewardedGame { kind: run.config.rules.game.clone(), item: game.episode.item.clone(), rewards, turns: turns.collect() }
}
