//! How tokens are drawn, and how many.

use clap::Args;
use serde::{Deserialize, Serialize};
use spag_io::Range as _;
use spag_model::Sampling;

use crate::limits::{MinNewTokens, NewTokens, Temperature, TopK, TopP};

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields)]
#[command(rename_all = "snake_case")]
pub struct SamplingSettings {
    /// Sampling temperature, from 0.0001 to 10000; 0 is greedy.
    #[arg(long, value_name = "X", default_value_t = Self::default().temperature, value_parser = Temperature::parse)]
    #[serde(deserialize_with = "Temperature::read")]
    pub temperature: f64,
    /// Sample from the N most likely tokens, as the reference does; 0 means all tokens [default: 50]. Endpoints are asked for
    /// it only with this flag: vLLM and spag serve accept it, OpenAI refuses it.
    #[arg(long, value_name = "N", value_parser = TopK::parse)]
    #[serde(deserialize_with = "TopK::read")]
    pub top_k: Option<usize>,
    /// Sample from the smallest set of most likely tokens whose probabilities sum to at least X.
    #[arg(long, value_name = "X", value_parser = TopP::parse)]
    #[serde(deserialize_with = "TopP::read")]
    pub top_p: Option<f64>,
}

impl Default for SamplingSettings {
    /// The paper's.
    fn default() -> Self {
        Self { temperature: 1.2, top_k: None, top_p: None }
    }
}

impl SamplingSettings {
    /// How a model draws tokens. Without `top_k` from the 50 most likely ones, as in the reference.
    pub fn sampling(&self) -> Sampling {
        if self.temperature > 0.0 {
            Sampling::random(self.temperature, self.top_k.unwrap_or(Sampling::REFERENCE_TOP_K), self.top_p)
        } else {
            Sampling::Greedy
        }
    }

    /// The `top_k` that endpoints are asked for: the one that was set, if it restricts anything.
    pub fn top_k_asked(&self) -> Option<usize> {
        self.top_k.filter(|k| *k > 0 && self.temperature > 0.0)
    }
}

/// How long completions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields)]
#[command(rename_all = "snake_case")]
pub struct LengthSettings {
    /// Maximum number of tokens in a completion.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_new_tokens, value_parser = NewTokens::parse)]
    #[serde(deserialize_with = "NewTokens::read")]
    pub max_new_tokens: usize,
    /// Minimum number of tokens in a completion: EOS and stop tokens are not sampled before it is reached.
    #[arg(long, value_name = "N", default_value_t = Self::default().min_new_tokens, value_parser = MinNewTokens::parse)]
    #[serde(deserialize_with = "MinNewTokens::read")]
    pub min_new_tokens: usize,
}

impl Default for LengthSettings {
    /// The paper's; the reference has no minimum.
    fn default() -> Self {
        Self { max_new_tokens: 256, min_new_tokens: 0 }
    }
}
