//! The opponents of an on-policy run: which games they play, and which model of the pool plays them.

use std::path::PathBuf;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use spag_game::{Policy, SEATS, Seat};
use spag_model::EngineConfig;
use spag_model::adapter::Adapter;
use spag_model::dtype::WeightDtype;
use spag_rewards::RewardedGame;
use spag_run::Model;
use spag_selfplay::{AnyPlayer, ModelPlayer};
use spag_train::OnlineLearner;

use super::player::player;
use super::snapshots::{Saves, Snapshots};
use crate::config::{OnlineSettings, Opponent, RunConfig};
use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::endpoints::{endpoint_config, open_endpoint};
use crate::seeds::stage_seed;

/// The models that the policy plays against, with its results. Saved with every checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pool {
    members: Vec<Member>,
}

/// A model of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Member {
    /// Updates of the run before it; 0 is the model of the imitation.
    update: usize,
    /// Games of the policy against it.
    games: f64,
    /// The policy's score in them: a win 1, a tie 1/2.
    score: f64,
}

impl Member {
    /// The policy's mean score, with a win and a loss more.
    fn mean_score(&self) -> f64 {
        (self.score + 1.0) / (self.games + 2.0)
    }
}

impl Pool {
    /// The index of the opponent of an update: drawn with the weights (1 − mean score)².
    fn draw(&self, seed: u64) -> usize {
        let weights = self.members.iter().map(|member| (1.0 - member.mean_score()).powi(2));
        let total: f64 = weights.clone().sum();
        let mut left = ChaCha8Rng::seed_from_u64(seed).random::<f64>() * total;
        let drawn = weights.into_iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        drawn.unwrap_or(self.members.len().saturating_sub(1))
    }

    /// Adds a model. Of those besides the first the oldest leaves if there are more than `size`.
    fn join(&mut self, update: usize, size: usize) {
        self.members.push(Member { update, ..Member::default() });
        if self.members.len() > size + 1 {
            self.members.remove(1);
        }
    }
}

/// Who plays the other seat.
enum Player {
    /// The model of a folder with its engine, or the adapter of a folder in the engine of the policy.
    Model(PathBuf, Box<ModelPlayer>),
    Endpoint(AnyPlayer),
}

/// The games of the policy against another model.
pub(super) struct Opponents {
    settings: OnlineSettings,
    pool: Pool,
    /// Who plays. Opened with the first game.
    player: Option<Player>,
    dtype: WeightDtype,
    engine: EngineConfig,
}

/// Against whom an update was played, and how it went for the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Against {
    /// Updates before the opponent of the pool.
    pub(super) update: usize,
    pub(super) games: f64,
    pub(super) score: f64,
}

impl Opponents {
    /// Continues with the pool that was saved. The opponent's engine has weights in `dtype`.
    pub(super) fn new(
        settings: &OnlineSettings,
        (dtype, engine): (WeightDtype, EngineConfig),
        saved: Option<Pool>,
    ) -> Self {
        let pool = saved.unwrap_or_else(|| Pool { members: vec![Member::default()] });
        Self { settings: settings.clone(), pool, player: None, dtype, engine }
    }

    /// The seat of the policy in each group of games of an update; `None` if it plays both. Groups are drawn, so that neither opponents
    /// nor seats go with the items, which are in order; seats have equal numbers.
    pub(super) fn seats_of_policy(
        &self,
        update: usize,
        groups: usize,
        seed: u64,
        seats: [Seat; SEATS],
    ) -> Vec<Option<Seat>> {
        let share = match self.settings.opponents.opponent {
            Opponent::Policy => 0.0,
            Opponent::Fixed | Opponent::Pool | Opponent::Scripted => {
                self.settings.opponents.share(update, self.settings.updates)
            }
        };
        let against = (groups as f64 * share).round() as usize;
        let mut order: Vec<usize> = (0..groups).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let mut of_groups = vec![None; groups];
        for (place, group) in order.into_iter().take(against).enumerate() {
            // An odd number gives the seats in turn one more.
            of_groups[group] = Some(seats[(place + update * (against % SEATS)) % SEATS]);
        }
        of_groups
    }

    /// Forgets the utterances of games that have ended.
    pub(super) fn forget_games(&mut self) {
        if let Some(Player::Model(_, player)) = &mut self.player {
            player.forget_games();
        }
    }

    /// The player of an update: an endpoint, or the model that was drawn for it. If it is an adapter, or the model under the policy's,
    /// its utterances are rows of the engine of `policy`.
    pub(super) fn player(
        &mut self,
        run: RunContext<'_>,
        update: usize,
        policy: &ModelPlayer,
    ) -> Result<&mut dyn Policy> {
        let member = self.pool.members.get(self.member(run.config, update)).copied().unwrap_or_default();
        let folder = self.folder(run.config, member);
        let is_open = match &self.player {
            Some(Player::Model(loaded, _)) => *loaded == folder,
            Some(Player::Endpoint(_)) => true,
            None => false,
        };
        if !is_open {
            // The engine of another opponent is gone by now, so that no third model is on the device.
            self.player = None;
        }
        let player = match (self.player.take(), self.settings.opponent_endpoint()?) {
            (Some(player), _) => player,
            (None, Some(endpoint)) => {
                let config = endpoint_config(&self.settings.sampling, run.config);
                Player::Endpoint(open_endpoint(endpoint, config)?)
            }
            (None, None) if self.settings.has_adapters_for_opponents(&run.config.train) => {
                let adapter = match member.update {
                    0 => None,
                    _ => Some(Adapter::load_for(&folder, run.config.folder_of(Model::Im))?),
                };
                let name = format!("update-{}", member.update);
                let named = adapter.as_ref().map(|adapter| (name.as_str(), adapter));
                policy.keep_adapters(&[name.as_str()])?;
                Player::Model(folder, Box::new(policy.beside(named, Some(member.update as u64))?))
            }
            (None, None) => {
                let model =
                    player(run, run.load_in(&folder, self.dtype, None)?, (self.engine, self.settings.sampling()))?;
                Player::Model(folder, Box::new(model.with_version(member.update as u64)))
            }
        };
        Ok(match self.player.insert(player) {
            Player::Model(_, player) => &mut **player,
            Player::Endpoint(player) => player,
        })
    }

    /// The index of the opponent of an update.
    fn member(&self, config: &RunConfig, update: usize) -> usize {
        match self.settings.opponents.opponent {
            Opponent::Pool => self.pool.draw(stage_seed(config.seed, &format!("online/opponent-{update}"))),
            Opponent::Policy | Opponent::Fixed | Opponent::Scripted => 0,
        }
    }

    fn folder(&self, config: &RunConfig, member: Member) -> PathBuf {
        let fixed = self.settings.opponents.opponent_model.as_ref().map(PathBuf::from);
        match (self.settings.opponents.opponent, member.update) {
            (Opponent::Fixed, _) => fixed.unwrap_or_else(|| config.folder_of(Model::Im)),
            (_, 0) => config.folder_of(Model::Im),
            (_, update) => self.snapshots(config).folder(config, update),
        }
    }

    /// Counts the games of all ranks of an update.
    pub(super) fn count(
        &mut self,
        config: &RunConfig,
        update: usize,
        games: &[(usize, RewardedGame)],
    ) -> Option<Against> {
        let mut against = Against::default();
        for (seat, game) in games.iter().filter_map(|(_, game)| Some((game.learner?, game))) {
            against.games += 1.0;
            against.score += game.score(seat);
        }
        let index = self.member(config, update);
        let member = self.pool.members.get_mut(index).filter(|_| against.games > 0.0)?;
        (member.games, member.score) = (member.games + against.games, member.score + against.score);
        Some(Against { update: member.update, ..against })
    }

    /// Lets the learner's model join the pool if it is time, after `updates` updates. All ranks have to call it.
    pub(super) fn join(&mut self, run: RunContext<'_>, learner: &OnlineLearner, updates: usize) -> Result<()> {
        if self.settings.opponents.opponent != Opponent::Pool {
            return Ok(());
        }
        let snapshots = self.snapshots(run.config);
        if snapshots.is_due(updates, self.settings.updates) {
            snapshots.save(run, learner, updates)?;
            self.pool.join(updates, self.settings.opponents.pool_size);
        }
        Ok(())
    }

    fn snapshots(&self, config: &RunConfig) -> Snapshots {
        let is_adapter = self.settings.has_adapters_for_opponents(&config.train);
        let saves = if is_adapter { Saves::Adapter } else { Saves::Model };
        Snapshots { name: "pool", saves, every: self.settings.opponents.pool_every }
    }

    /// What a checkpoint saves.
    pub(super) fn state(&self) -> &Pool {
        &self.pool
    }

    /// Deletes the models that have left the pool. Earlier checkpoints, which may name them, must be gone.
    pub(super) fn remove_left(&self, config: &RunConfig, updates: usize) -> Result<()> {
        if self.settings.opponents.opponent != Opponent::Pool {
            return Ok(());
        }
        let is_member = |update| self.pool.members.iter().any(|member| member.update == update);
        self.snapshots(config).remove_others(config, updates, is_member)
    }
}

#[cfg(test)]
mod tests {
    use spag_model::generate::{PrefixSharing, SumOrder};

    use super::*;
    use crate::config::OpponentSettings;

    fn engine() -> EngineConfig {
        let (prefix_sharing, sum_order) = (PrefixSharing::On, SumOrder::Any);
        EngineConfig {
            max_length: 8,
            page_size: 8,
            pages: 1,
            max_running: 1,
            max_step_tokens: 8,
            prefix_sharing,
            sum_order,
        }
    }

    #[test]
    fn strong_opponents_are_drawn_most_and_the_oldest_leave() {
        let member = |update, games, score| Member { update, games, score };
        let mut pool = Pool { members: vec![member(0, 98.0, 97.0), member(10, 98.0, 49.0), member(20, 98.0, 9.0)] };
        let mut drawn = [0; 3];
        (0..6000).for_each(|seed| drawn[pool.draw(seed)] += 1);
        // (1 − 0.98)², (1 − 0.5)² and (1 − 0.1)² of their sum.
        let expected = [0.0004, 0.25, 0.81].map(|weight| 6000.0 * weight / 1.0604);
        for (drawn, expected) in drawn.into_iter().zip(expected) {
            assert!((f64::from(drawn) - expected).abs() < 5.0 * expected.sqrt().max(1.0), "{drawn} {expected}");
        }
        pool.join(30, 2);
        assert_eq!(pool.members.iter().map(|member| member.update).collect::<Vec<_>>(), [0, 20, 30]);
    }

    #[test]
    fn seats_are_balanced_and_do_not_go_with_the_items() {
        let opponents = |opponent_share| {
            let opponents = OpponentSettings { opponent: Opponent::Fixed, opponent_share, ..Default::default() };
            let settings = OnlineSettings { opponents, ..OnlineSettings::default() };
            Opponents::new(&settings, (WeightDtype::F32, engine()), None)
        };
        let seats = spag_game::taboo::LABELS.seats;
        let of = |share, groups, update: usize| -> Vec<Option<usize>> {
            let all = opponents(share).seats_of_policy(update, groups, stage_seed(5, &update.to_string()), seats);
            all.into_iter().map(|seat| seat.map(Seat::index)).collect()
        };
        assert!(of(0.0, 8, 0).iter().all(Option::is_none));
        for share in [0.25, 0.5, 1.0] {
            let all = of(share, 8, 3);
            let count = |seat| all.iter().filter(|of| **of == Some(seat)).count();
            assert_eq!((count(0), count(1)), ((4.0 * share) as usize, (4.0 * share) as usize), "{share}");
        }
        // One game of eight: the seats take turns.
        let alone: Vec<_> =
            (0..6).map(|update| of(0.125, 8, update).into_iter().flatten().collect::<Vec<_>>()).collect();
        assert_eq!(alone, [[0], [1], [0], [1], [0], [1]].map(Vec::from));
        // A game number, as of an item that comes once an update, has all players.
        let first: Vec<_> = (0..64).map(|update| of(0.5, 8, update)[0]).collect();
        assert!([None, Some(0), Some(1)].iter().all(|seat| first.contains(seat)), "{first:?}");
    }
}
