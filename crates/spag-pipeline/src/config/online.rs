//! `[online]`: on-policy self-play in place of rounds.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use spag_model::generate::Sampling;
use spag_rewards::{BatchShape, OutcomeRewards};
use spag_selfplay::{EndpointSpec, PlayerSpec, SamplingSettings, limits};
use spag_train::TrainConfig;
use spag_train::loss::{PolicyLoss, PolicyLossSettings};

use super::online_choices::{Control, EstimatorChoice, GapRule, Opponent, Policies, WordOrder};
use super::online_signal::{ReferenceSettings, SignalSettings};
use crate::error::{Error, Result};

/// How a run trains after imitation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunMethod {
    /// Rounds: games by the model of the last round, then training on the winners' utterances. The paper's.
    #[default]
    Offline,
    /// Updates: a batch of games by the model as it is, then one step on them.
    Online,
}

spag_io::settings! {
    /// `[online]`: on-policy self-play. The learner is that of `[train]`.
    pub table OnlineSettings {
        /// Policies of the run: `one`, which plays both seats, or `seats`, an adapter for each seat (`train.lora_r`), which learns from
        /// its seat alone. Later stages that need one model use that of the first seat.
        pub policies: Policies;
        /// Updates of the run.
        pub updates: usize [1..=10_000_000] = 100;
        /// Games of an update, over all ranks.
        pub games_per_update: usize [limits::GAMES] = 64;
        /// Updates between models that are measured: SPAG-1 … ; all updates if absent.
        pub eval_updates: Option<usize> [1..=10_000_000];
        /// Updates between checkpoints of the learner, from which a run goes on that was killed.
        pub save_updates: usize [1..=10_000_000] = 10;
        /// Consecutive games on one word.
        pub group_size: usize [1..=4096] = 1;
        /// Which words are played: `cycled`, in order, or `balanced`, drawn towards those that each seat wins half of.
        pub words: WordOrder;
        /// What makes advantages of rewards: a name, or a table with `name` and its settings.
        pub estimator: EstimatorChoice;
        /// The rewards of games.
        pub rewards: OutcomeRewards;
        /// What the same budget shows without a part of the signal.
        pub control: Option<Control>;
        /// Optimizer steps of a pass over an update's games.
        pub minibatches: usize [1..=4096] = 1;
        /// Passes over an update's games.
        pub ppo_epochs: usize [1..=1000] = 1;
        /// What happens if the learner's log-probabilities differ from those at sampling: `stop` ends the run on a CPU, and on a
        /// GPU with `exact`, where they should not, `report` writes it to `metrics.jsonl`.
        pub log_prob_gap: GapRule;
        /// Games on a GPU have the log-probabilities of the learner bit by bit, as on a CPU: keys are summed in one order for every
        /// batch, which takes longer with few games. bf16, heads of 64 or 128.
        pub exact: bool = false;
    } + {
        /// What tokens are drawn from: the model's own distribution by default. The learner computes log-probabilities under it.
        pub sampling: SamplingSettings = SamplingSettings { temperature: 1.0, top_k: Some(0), top_p: None };
        /// The loss.
        pub policy_loss: PolicyLossSettings;
        /// Who plays the other seat.
        pub opponents: OpponentSettings;
        /// Which games are learned from.
        pub signal: SignalSettings;
        /// What the divergence is measured from.
        pub reference: ReferenceSettings;
    }

    /// Who plays the other seat in an on-policy run, among the settings of `[online]`.
    pub table OpponentSettings {
        /// `self`: the policy plays both seats. `fixed`: a model that does not learn. `pool`: models of the run at earlier updates.
        /// `scripted`: the players of the small world, which give true clues and guess; in games with a list of actions any of them.
        pub opponent: Opponent;
        /// Folder of the model for `fixed`, or an endpoint, openai:URL#MODEL; the model of the imitation if absent.
        pub opponent_model: Option<String>;
        /// Share of the games that the opponent plays, in both seats alike; the policy plays the others against itself.
        pub opponent_share: f64 [0.0..=1.0] = 1.0;
        /// That share in the last update, to which it changes in equal steps; it stays as it is if absent.
        pub opponent_last_share: Option<f64> [0.0..=1.0];
        /// Updates between the models that join the pool.
        pub pool_every: usize [1..=10_000_000] = 10;
        /// Most models in the pool, besides the model of the imitation. The oldest leaves first.
        pub pool_size: usize [1..=1000] = 4;
    }
}

impl OpponentSettings {
    /// The share of the games of update `update` of `updates` that the opponent plays.
    pub(crate) fn share(&self, update: usize, updates: usize) -> f64 {
        let last = self.opponent_last_share.unwrap_or(self.opponent_share);
        let progress = update as f64 / updates.saturating_sub(1).max(1) as f64;
        self.opponent_share + (last - self.opponent_share) * progress.min(1.0)
    }
}

impl OnlineSettings {
    /// How tokens are drawn. A `top_p` of 1 leaves out no token.
    pub(crate) fn sampling(&self) -> Sampling {
        let top_p = self.sampling.top_p.filter(|share| *share < 1.0);
        SamplingSettings { top_p, ..self.sampling }.sampling()
    }

    /// Whether opponents are adapters of the policy's model, or that model, and play in its engine.
    pub(crate) fn has_adapters_for_opponents(&self, train: &TrainConfig) -> bool {
        let is_of_run = self.opponents.opponent == Opponent::Pool || self.opponents.opponent_model.is_none();
        train.lora_r.is_some() && is_of_run
    }

    /// The endpoint that plays the other seat, if one does.
    ///
    /// # Errors
    /// A setting that is neither an endpoint nor a folder.
    pub(crate) fn opponent_endpoint(&self) -> Result<Option<EndpointSpec>> {
        let Some(model) = &self.opponents.opponent_model else { return Ok(None) };
        match model.parse() {
            Ok(PlayerSpec::Endpoint(endpoint)) => Ok(Some(endpoint)),
            Ok(PlayerSpec::Model(_) | PlayerSpec::Adapted { .. }) => Ok(None),
            Err(error) => Err(Error::BadSetting { setting: "online.opponent_model", message: error.to_string() }),
        }
    }

    /// Whether the games are those of the model that learns.
    pub(crate) fn learns_from_itself(&self) -> bool {
        self.control != Some(Control::SftOnly)
    }

    /// The number of models that are measured.
    pub fn parts(&self) -> usize {
        self.updates.div_ceil(self.eval_updates.unwrap_or(self.updates))
    }

    /// The updates that make the model of an epoch, from 1.
    pub fn part(&self, epoch: usize) -> Range<usize> {
        let each = self.eval_updates.unwrap_or(self.updates);
        let of = |epoch: usize| (epoch * each).min(self.updates);
        of(epoch.saturating_sub(1))..of(epoch)
    }

    /// The most optimizer steps of the run, which the learning rate follows.
    pub(crate) fn steps(&self) -> usize {
        self.updates.saturating_mul(self.minibatches).saturating_mul(self.ppo_epochs)
    }

    /// Checks values that depend on others.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |setting, message: String| Err(Error::BadSetting { setting, message });
        if !self.games_per_update.is_multiple_of(self.group_size) {
            let message = format!(
                "{} does not divide the {} games of an update; change one of them",
                self.group_size, self.games_per_update
            );
            return bad("online.group_size", message);
        }
        if self.minibatches > self.games_per_update {
            let message =
                format!("{} for {} games of an update; use at most as many", self.minibatches, self.games_per_update);
            return bad("online.minibatches", message);
        }
        if self.ppo_epochs > 1 && self.policy_loss.loss == PolicyLoss::Reinforce {
            let message = "reinforce has no importance ratios, and the games of a second pass were sampled by another model; \
                           use loss = \"ppo\", \"truncated\" or \"masked\", or ppo_epochs = 1";
            return bad("online.ppo_epochs", message.to_owned());
        }
        self.check_sampling()?;
        self.check_signal()?;
        let OpponentSettings { opponent, opponent_model, opponent_share, opponent_last_share, .. } = &self.opponents;
        if opponent_model.is_some() && *opponent != Opponent::Fixed {
            return bad(
                "online.opponent_model",
                "it is for opponent = \"fixed\"; set that, or leave this out".to_owned(),
            );
        }
        if *opponent != Opponent::Policy && *opponent_share == 0.0 && opponent_last_share.unwrap_or_default() == 0.0 {
            let message = "no game is played against the opponent; set opponent = \"self\", or a share above 0";
            return bad("online.opponent_share", message.to_owned());
        }
        if self.control == Some(Control::SftOnly) && *opponent != Opponent::Policy {
            return bad(
                "online.control",
                "this control has an opponent of its own; leave online.opponent out".to_owned(),
            );
        }
        let batch = BatchShape { games: self.games_per_update, games_per_key: self.group_size };
        self.estimator
            .check(batch)
            .and(self.rewards.check())
            .or_else(|error| bad("online.estimator", error.to_string()))
    }

    /// Checks that there are log-probabilities to learn, and that a model can be compared with another one: each leaves out other
    /// tokens.
    fn check_sampling(&self) -> Result<()> {
        let bad = |setting, message: &str| Err(Error::BadSetting { setting, message: message.to_owned() });
        let Sampling::Random { top_k, top_p, .. } = self.sampling() else {
            return bad("online.temperature", "0 is greedy, so that games of equal words are equal; use 1, or less");
        };
        let restricted = match (top_k, top_p) {
            (Some(_), _) => "online.top_k",
            (None, Some(_)) => "online.top_p",
            (None, None) => return Ok(()),
        };
        if self.policy_loss.kl_coeff > 0.0 {
            let message = "the model of the imitation leaves out other tokens than the policy, so their divergence is \
                           not defined; use all tokens, or online.kl_coeff = 0";
            return bad(restricted, message);
        }
        if self.minibatches > 1 || self.ppo_epochs > 1 {
            let message = "after a step the policy leaves out other tokens than those at sampling; use all tokens, or \
                           one step an update: online.minibatches = 1 and online.ppo_epochs = 1";
            return bad(restricted, message);
        }
        Ok(())
    }
}
