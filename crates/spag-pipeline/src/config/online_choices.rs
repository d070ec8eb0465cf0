//! The choices of `[online]`.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use spag_rewards::EstimatorSettings;

use crate::error::Result;

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
    /// The model of the imitation plays all games, and the learner imitates their winners, with an advantage of 1: neither self-play
    /// nor rewards.
    SftOnly,
}

/// Which words the games of an update are played on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WordOrder {
    /// In the order of the list, again and again.
    #[default]
    Cycled,
    /// Drawn with the variance of the first seat's score (a win 1, a tie 1/2) as weight: it is largest if half of a word's games are
    /// won. A win and a loss more than were played count, and an earlier game 0.9 of the next one.
    Balanced,
}

/// How many policies a run trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policies {
    /// One, which plays both seats.
    #[default]
    One,
    /// One for each seat: two adapters over the model of the imitation, each of which learns from the utterances of its seat alone.
    Seats,
}

impl Policies {
    /// The number of policies.
    pub(crate) fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Seats => 2,
        }
    }
}

/// Who plays the other seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opponent {
    /// The policy.
    #[default]
    #[serde(rename = "self")]
    Policy,
    /// A model that does not learn.
    Fixed,
    /// A model of the run at an earlier update, drawn for each update with the weight (1 − p)², where p is the policy's mean score
    /// against it so far (a win 1, a tie 1/2; a win and a loss more than were played).
    Pool,
    /// The scripted players of the small world, which guess; in games with a list of actions, any of them.
    Scripted,
}

/// What a difference from the log-probabilities at sampling does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GapRule {
    /// It ends the run on a CPU.
    #[default]
    Stop,
    /// It is written to `metrics.jsonl`.
    Report,
}
