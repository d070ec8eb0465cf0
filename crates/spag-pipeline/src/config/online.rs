//! `[online]`: on-policy self-play in place of rounds.

use std::ops::{Deref, Range};

use serde::{Deserialize, Serialize};
use spag_model::Sampling;
use spag_rewards::{BatchShape, EstimatorSettings, OutcomeRewards};
use spag_selfplay::limits;
use spag_train::loss::{Length, Loss, PolicyGradient, Ratio};

use super::run::RunConfig;
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
    /// `[online]`: on-policy self-play. Tokens are drawn from the model's own distribution, and the learner is that of `[train]`.
    pub table OnlineSettings {
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
        /// What makes advantages of rewards: a name, or a table with `name` and its settings.
        pub estimator: EstimatorChoice;
        /// The rewards of games.
        pub rewards: OutcomeRewards;
        /// What the same budget shows without a part of the signal.
        pub control: Option<Control>;
    } + {
        /// The loss.
        pub policy_loss: PolicyLossSettings;
    }

    /// The loss of an on-policy run, among the settings of `[online]`.
    pub table PolicyLossSettings {
        /// `reinforce`, `ppo`, `truncated` or `masked`: what importance ratios do, which differ from 1 on GPUs only.
        pub loss: PolicyLoss;
        /// PPO's clip range below 1.
        pub clip_low: f64 [0.0..=1.0] = 0.2;
        /// PPO's clip range above 1.
        pub clip_high: f64 [0.0..=100.0] = 0.2;
        /// The largest importance ratio of `truncated` and `masked`.
        pub ratio_cap: f64 [1.0..=1e6] = 2.0;
        /// What the sum over an utterance's tokens is divided by: `max_new_tokens`, or `own`, its length.
        pub length: PolicyLength;
    }
}

/// An estimator as configurations write it: `"rae"`, or a table `{ name = "rae", decay = 0.9 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value")]
pub struct EstimatorChoice(EstimatorSettings);

impl Default for EstimatorChoice {
    fn default() -> Self {
        Self(EstimatorSettings::Rae(Default::default()))
    }
}

impl Deref for EstimatorChoice {
    type Target = EstimatorSettings;

    fn deref(&self) -> &EstimatorSettings {
        &self.0
    }
}

impl TryFrom<toml::Value> for EstimatorChoice {
    type Error = toml::de::Error;

    fn try_from(value: toml::Value) -> Result<Self, toml::de::Error> {
        let table = match value {
            name @ toml::Value::String(_) => toml::Value::Table([("name".to_owned(), name)].into_iter().collect()),
            other => other,
        };
        table.try_into().map(Self)
    }
}

/// A run with the same budget and a part of the signal removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// The winner of every game is drawn.
    RandomWinner,
}

/// What importance ratios do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyLoss {
    /// Nothing.
    #[default]
    Reinforce,
    /// They are clipped, as in PPO.
    Ppo,
    /// They are weights up to `ratio_cap`.
    Truncated,
    /// They are weights; tokens beyond `ratio_cap` are left out.
    Masked,
}

/// What the sum over an utterance's tokens is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyLength {
    /// A constant, so that every token counts the same.
    #[default]
    MaxNewTokens,
    /// Its tokens, so that every utterance counts the same.
    Own,
}

impl PolicyLossSettings {
    /// The loss for utterances of at most `max_new_tokens`.
    fn build(&self, max_new_tokens: usize) -> PolicyGradient {
        let ratio = match self.loss {
            PolicyLoss::Reinforce => Ratio::None,
            PolicyLoss::Ppo => Ratio::Clip { low: self.clip_low, high: self.clip_high },
            PolicyLoss::Truncated => Ratio::Truncated { cap: self.ratio_cap },
            PolicyLoss::Masked => Ratio::Masked { cap: self.ratio_cap },
        };
        let length = match self.length {
            PolicyLength::MaxNewTokens => Length::Constant(max_new_tokens),
            PolicyLength::Own => Length::Own,
        };
        PolicyGradient { ratio, length, kl: 0.0 }
    }
}

impl OnlineSettings {
    /// How tokens are drawn: the learner computes the log-probabilities of this distribution.
    pub const SAMPLING: Sampling = Sampling::Random { temperature: 1.0, top_k: None, top_p: None };

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

    /// The loss of the learner.
    pub(crate) fn loss(&self, config: &RunConfig) -> Box<dyn Loss> {
        Box::new(self.policy_loss.build(config.self_play.length.max_new_tokens))
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
        let batch = BatchShape { games: self.games_per_update, games_per_key: self.group_size };
        self.estimator
            .check(batch)
            .and(self.rewards.check())
            .or_else(|error| bad("online.estimator", error.to_string()))
    }
}
