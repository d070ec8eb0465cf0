//! The tables of a run's configuration. Defaults are the paper's unless the small world needs others.

use serde::{Deserialize, Serialize};
use spag_model::Sampling;
use spag_rewards::RewardNorm;
use spag_train::{TrainConfig, TrainMethod};

/// `[imitation]`: training on games of scripted players.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImitationSettings {
    /// Games of the scripted players; words are cycled.
    pub games: usize,
    /// Training of the base model, which is also the reference model. The seed is derived from the run's.
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

/// `[self_play]`: games before each round of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelfPlaySettings {
    /// Games per epoch; words are cycled.
    pub games: usize,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Tokens are drawn from the `top_k` most likely ones, 50 as in the reference; 0 means all.
    pub top_k: usize,
    /// Tokens are drawn from the smallest set of most likely ones whose probabilities sum to `top_p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Maximum tokens of an utterance.
    pub max_new_tokens: usize,
    /// Games in flight, also in evaluation. More is faster but takes more memory.
    pub games_in_flight: usize,
}

impl Default for SelfPlaySettings {
    fn default() -> Self {
        Self {
            games: 1440,
            temperature: 1.2,
            top_k: Sampling::REFERENCE_TOP_K,
            top_p: None,
            max_new_tokens: 256,
            games_in_flight: 64,
        }
    }
}

impl SelfPlaySettings {
    /// How tokens are drawn.
    pub fn sampling(&self) -> Sampling {
        sampling(self.temperature, self.top_k, self.top_p)
    }
}

/// `[rewards]`: credit assignment to the winner's utterances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewardSettings {
    /// γ: the reward of the winner's k-th utterance is proportional to γ⁻ᵏ.
    pub decay_weight: f64,
    /// `sum`: a game's rewards sum to 1, as in the paper. `mean`: they average 1.
    pub reward_norm: RewardNorm,
}

impl Default for RewardSettings {
    fn default() -> Self {
        Self { decay_weight: 0.8, reward_norm: RewardNorm::Sum }
    }
}

/// `[sft]`: general questions and answers among the samples, against forgetting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SftSettings {
    /// SFT samples per game sample; 0.25 makes a fifth of all samples SFT.
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
    /// Games of the last model against itself, or 0.
    pub self_play_games: usize,
    /// Seed of the evaluation games, independent of the run's seed.
    pub seed: u64,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Tokens are drawn from the `top_k` most likely ones, 50 as in the reference; 0 means all.
    pub top_k: usize,
    /// Tokens are drawn from the smallest set of most likely ones whose probabilities sum to `top_p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Epochs to evaluate, from 1; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Vec<usize>>,
    /// Number of words whose games the report shows.
    pub sample_games: usize,
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            games: 600,
            self_play_games: 300,
            seed: 1_000_003,
            temperature: 1.0,
            top_k: Sampling::REFERENCE_TOP_K,
            top_p: None,
            epochs: None,
            sample_games: 6,
        }
    }
}

impl EvaluationSettings {
    /// How tokens are drawn.
    pub fn sampling(&self) -> Sampling {
        sampling(self.temperature, self.top_k, self.top_p)
    }
}

fn sampling(temperature: f64, top_k: usize, top_p: Option<f64>) -> Sampling {
    if temperature > 0.0 { Sampling::random(temperature, top_k, top_p) } else { Sampling::Greedy }
}
