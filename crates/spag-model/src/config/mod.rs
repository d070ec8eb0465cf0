//! The model configuration: Hugging Face's `config.json`.

mod architecture;
mod common;
mod families;
mod family;
mod keys;
mod rope;
mod sizes;
mod unsupported;
mod windows;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_io::{quote, read_whole};

use self::family::Family;
use self::keys::Keys;
use crate::error::{Error, Result};

pub use architecture::{
    Architecture, Biases, Embeddings, HeadNorm, Modalities, NormWeights, Norms, OutputHead, Position, Projections,
};
pub use rope::{LongRope, Rope, RopeScaling, Yarn};

/// Maximum bytes of a `config.json`. Those of published models have a few thousand.
const MAX_BYTES: u64 = 4 << 20;

/// Names of dropout probabilities in published configurations, separated by blanks.
const DROPOUTS: &str = "attention_dropout attention_probs_dropout_prob attn_pdrop dropout embd_pdrop embedding_dropout \
                        hidden_dropout hidden_dropout_prob resid_dropout resid_pdrop residual_dropout";

/// A `config.json`: the parsed architecture, and all keys as they were read.
///
/// Keys without effect on the computation are kept, so that a configuration survives a round trip. A key that requests an
/// unsupported computation is refused by name.
///
/// ```
/// use spag_model::config::Position;
/// use spag_model::ModelConfig;
///
/// let config: ModelConfig = serde_json::from_str(
///     r#"{"model_type": "qwen3", "hidden_size": 8, "intermediate_size": 16, "vocab_size": 11, "num_hidden_layers": 2,
///         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 6, "rope_theta": 1000000}"#,
/// )?;
/// assert_eq!(config.architecture.query_size(), 12);
/// assert!(matches!(config.architecture.position, Position::Rope(rope) if rope.theta == 1e6));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct ModelConfig {
    /// The model's architecture.
    pub architecture: Architecture,
    /// Standard deviation of randomly initialised weights.
    pub initializer_range: f64,
    /// Beginning-of-sequence token.
    pub bos_token_id: Option<u32>,
    /// End-of-sequence tokens; the first is the one appended to samples.
    pub eos_token_ids: Vec<u32>,
    keys: Map<String, Value>,
}

impl ModelConfig {
    /// Reads and checks a `config.json`.
    ///
    /// # Errors
    /// A missing, oversized or malformed file, or an unsupported configuration (see [`ModelConfig::from_keys`]).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = read_whole(path, MAX_BYTES)?;
        let keys = serde_json::from_slice(&bytes).map_err(|e| Error::Json {
            path: path.to_owned(),
            what: "config.json",
            reason: quote(&e.to_string()),
        })?;
        Self::from_keys(keys).map_err(|e| match e {
            Error::Config(why) => Error::Config(format!("{}: {why}", path.display())),
            other => other,
        })
    }

    /// Parses the keys of a `config.json`.
    ///
    /// # Errors
    /// [`Error::Config`] naming a key that is missing, has another type, is out of range or inconsistent with others, or
    /// requests an unsupported computation.
    pub fn from_keys(mut map: Map<String, Value>) -> Result<Self> {
        let keys = Keys(&map);
        let family = Family::of(keys)?;
        unsupported::check(keys, family.computes)?;
        // The keys of the text model, which are all keys in most families.
        let text = family.text_keys(keys)?;
        unsupported::check(text, family.computes)?;
        let mut architecture = (family.parse)(text)?;
        if family.modalities == Modalities::TextAndImages {
            families::of_multimodal(keys, &mut architecture)?;
        }
        architecture.check()?;
        architecture.windows.resize(architecture.num_hidden_layers, None);
        let initializer_range = keys.number("initializer_range")?.unwrap_or(0.02);
        if !(0.0..=1e6).contains(&initializer_range) {
            let why = format!("`initializer_range` is {initializer_range}; it must lie between 0 and 1e6");
            return Err(Error::Config(why));
        }
        let ids = if keys.get("eos_token_id").is_some() { keys } else { text };
        let (bos_token_id, eos_token_ids) =
            (keys.id("bos_token_id")?.or(text.id("bos_token_id")?), ids.ids("eos_token_id")?);
        let activation = (family.computes.activation_key(), Value::from(family.computes.activations[0]));
        let own = [("architectures", Value::from(vec![family.class])), ("model_type", Value::from(family.model_type))];
        for (key, value) in own.into_iter().chain(Some(activation).filter(|_| family.modalities == Modalities::Text)) {
            map.entry(key).or_insert(value);
        }
        Ok(Self { architecture, initializer_range, bos_token_id, eos_token_ids, keys: map })
    }

    /// All keys of the file.
    pub fn keys(&self) -> &Map<String, Value> {
        &self.keys
    }

    /// The configuration with a key changed.
    ///
    /// # Errors
    /// As [`ModelConfig::from_keys`].
    pub fn with(&self, key: &str, value: impl Into<Value>) -> Result<Self> {
        let mut keys = self.keys.clone();
        keys.insert(key.to_owned(), value.into());
        Self::from_keys(keys)
    }

    /// The first key that enables dropout during training, and its value.
    pub fn dropout(&self) -> Option<(&'static str, String)> {
        let asks = |value: &Value| !value.is_null() && *value != false && value.as_f64() != Some(0.0);
        DROPOUTS.split_whitespace().find_map(|key| {
            let value = self.keys.get(key).filter(|value| asks(value))?;
            Some((key, quote(&value.to_string())))
        })
    }
}

impl TryFrom<Map<String, Value>> for ModelConfig {
    type Error = Error;

    fn try_from(keys: Map<String, Value>) -> Result<Self> {
        Self::from_keys(keys)
    }
}

impl From<ModelConfig> for Map<String, Value> {
    fn from(config: ModelConfig) -> Self {
        config.keys
    }
}

#[cfg(test)]
mod tests;
