//! The tables of a run's configuration, each with its defaults.
//!
//! Defaults are the paper's where a small world allows it; `configs/tiny.toml` says what departs from them and why.

use serde::{Deserialize, Serialize};
use spag_rewards::RewardNorm;
use spag_train::{TrainConfig, TrainMethod};

/// `[imitation]`: learning the game from scripted players.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImitationSettings {
    /// How many games the scripted players play; words are taken in turn.
    pub games: usize,
    /// How the base learns from the winners' utterances; the base itself is the reference. The seed is drawn from the
    /// run's.
    pub train: TrainConfig,
}

impl Default for ImitationSettings {
    fn default() -> Self {
        Self {
            games: 2400,
            train: TrainConfig { method: TrainMethod::SftWithKl, lm_kl_coeff: 0.1, ..TrainConfig::default() },
        }
    }
}

/// `[self_play]`: the model against itself, before each round of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelfPlaySettings {
    /// Games per epoch; words are taken in turn, again from the first when they run out.
    pub games: usize,
    /// Sampling temperature; 0 plays greedily.
    pub temperature: f64,
    /// Longest reply, in tokens.
    pub max_new_tokens: usize,
    /// Games that advance together, here and in evaluation: more is faster until memory ends.
    pub games_in_flight: usize,
}

impl Default for SelfPlaySettings {
    fn default() -> Self {
        Self { games: 1440, temperature: 1.2, max_new_tokens: 256, games_in_flight: 64 }
    }
}

/// `[rewards]`: how a won game's reward is shared among the winner's utterances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewardSettings {
    /// γ: the k-th utterance of the winner gets a reward in proportion to γ⁻ᵏ.
    pub decay_weight: f64,
    /// `sum`: a game's rewards sum to 1, as in the paper. `mean`: they average 1.
    pub reward_norm: RewardNorm,
}

impl Default for RewardSettings {
    fn default() -> Self {
        Self { decay_weight: 0.8, reward_norm: RewardNorm::Sum }
    }
}

/// `[sft]`: general questions and answers mixed into the games, so that the model does not forget the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SftSettings {
    /// Rows per game sample; 0.25 makes a fifth of all rows SFT.
    pub share: f64,
}

impl Default for SftSettings {
    fn default() -> Self {
        Self { share: 0.25 }
    }
}

/// `[evaluation]`: each trained model against the imitation model, in both seats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationSettings {
    /// Games per seat.
    pub games: usize,
    /// Games of the last model against itself; 0 leaves them out.
    pub self_play_games: usize,
    /// Seed of the evaluation games, apart from the run's own seed: change one without the other.
    pub seed: u64,
    /// Sampling temperature; 0 plays greedily.
    pub temperature: f64,
    /// Which epochs are evaluated, as numbers from 1; all of them when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Vec<usize>>,
    /// Words whose games are shown side by side at the end.
    pub sample_games: usize,
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self { games: 600, self_play_games: 300, seed: 1_000_003, temperature: 1.0, epochs: None, sample_games: 6 }
    }
}
