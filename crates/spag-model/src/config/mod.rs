//! The model configuration: Hugging Face's `config.json` of the LLaMA family.

mod check;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use spag_io::{quote, read_whole};

use crate::error::{Error, Result};

/// Architecture of a LLaMA model, with the key names of Hugging Face's `config.json`.
///
/// Keys that do not affect the computation are kept in `extra`, so that a configuration survives a round trip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Hidden size, D.
    pub hidden_size: usize,
    /// Feed-forward size, F.
    pub intermediate_size: usize,
    /// Vocabulary size, V.
    pub vocab_size: usize,
    /// Number of blocks, L.
    pub num_hidden_layers: usize,
    /// Number of query heads, H.
    pub num_attention_heads: usize,
    /// Number of key/value heads; fewer than `num_attention_heads` means grouped-query attention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_key_value_heads: Option<usize>,
    /// Maximum sequence length in tokens.
    #[serde(default = "default_positions")]
    pub max_position_embeddings: usize,
    /// ε of RMSNorm.
    #[serde(default = "default_eps")]
    pub rms_norm_eps: f64,
    /// Base of the RoPE frequencies.
    #[serde(default = "default_theta")]
    pub rope_theta: f64,
    /// Whether the output head shares the embedding matrix.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// Standard deviation of randomly initialised weights.
    #[serde(default = "default_init")]
    pub initializer_range: f64,
    /// Beginning-of-sequence token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos_token_id: Option<u32>,
    /// End-of-sequence token. Hugging Face allows a list; the first entry is used.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "first_id")]
    pub eos_token_id: Option<u32>,
    /// Every other key of the file.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, Value>,
}

/// Names of dropout probabilities in the configurations of published models.
const DROPOUTS: [&str; 11] = [
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "dropout",
    "embd_pdrop",
    "embedding_dropout",
    "hidden_dropout",
    "hidden_dropout_prob",
    "resid_dropout",
    "resid_pdrop",
    "residual_dropout",
];

/// Bytes of a `config.json`, at most. Those of published models have a few thousand.
const MAX_BYTES: u64 = 4 << 20;

fn default_positions() -> usize {
    2048
}
fn default_eps() -> f64 {
    1e-6
}
fn default_theta() -> f64 {
    10000.0
}
fn default_init() -> f64 {
    0.02
}

/// `eos_token_id` is a number, a list of numbers or null.
fn first_id<'de, D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Ids {
        One(u32),
        Many(Vec<u32>),
    }
    Ok(match Option::<Ids>::deserialize(d)? {
        None => None,
        Some(Ids::One(id)) => Some(id),
        Some(Ids::Many(ids)) => ids.first().copied(),
    })
}

impl ModelConfig {
    /// Reads and checks a `config.json`.
    ///
    /// # Errors
    /// A missing, oversized or malformed file, or an unsupported configuration (see [`ModelConfig::check`]).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = read_whole(path, MAX_BYTES)?;
        let config: Self = serde_json::from_slice(&bytes).map_err(|e| Error::Json {
            path: path.to_owned(),
            what: "config.json",
            reason: quote(&e.to_string()),
        })?;
        config.check().map_err(|e| match e {
            Error::Config(why) => Error::Config(format!("{}: {why}", path.display())),
            other => other,
        })?;
        Ok(config)
    }

    /// The first key that asks for dropout while the model is trained, and its value.
    pub fn dropout(&self) -> Option<(&'static str, String)> {
        let asks = |value: &Value| !value.is_null() && *value != false && value.as_f64() != Some(0.0);
        DROPOUTS.into_iter().find_map(|key| {
            let value = self.extra.get(key).filter(|value| asks(value))?;
            Some((key, quote(&value.to_string())))
        })
    }

    /// Number of key/value heads.
    pub fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Head size.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads.max(1)
    }

    /// Width of a row of keys or values: key/value heads × head size.
    pub fn kv_size(&self) -> usize {
        self.kv_heads() * self.head_dim()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: &str) -> Result<ModelConfig> {
        let base =
            r#"{"hidden_size":8,"intermediate_size":12,"vocab_size":10,"num_hidden_layers":1,"num_attention_heads":2"#;
        let config: ModelConfig = serde_json::from_str(&format!("{base}{change}}}")).unwrap();
        config.check()?;
        Ok(config)
    }

    #[test]
    fn dropout_is_found_under_its_names() {
        for change in ["", r#","attention_dropout":0.0,"resid_pdrop":0,"dropout":null,"hidden_dropout":false"#] {
            assert_eq!(config(change).unwrap().dropout(), None);
        }
        let found = config(r#","attention_dropout":0.0,"resid_pdrop":0.1"#).unwrap().dropout();
        assert_eq!(found, Some(("resid_pdrop", "0.1".to_owned())));
        assert!(config(r#","attention_dropout":"0.1""#).unwrap().dropout().is_some());
    }

    #[test]
    fn config_round_trips_with_defaults_and_unknown_keys() {
        let c = config(r#","use_cache":true,"eos_token_id":[2,7]"#).unwrap();
        assert_eq!((c.kv_heads(), c.head_dim(), c.eos_token_id), (2, 4, Some(2)));
        let again: ModelConfig = serde_json::from_str(&serde_json::to_string(&c).unwrap()).unwrap();
        assert_eq!(again, c);
    }
}
