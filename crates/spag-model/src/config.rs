//! The model configuration: Hugging Face's `config.json` of the LLaMA family.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Architecture of a LLaMA model, with the key names of Hugging Face's `config.json`.
///
/// Keys that do not affect the computation are kept in `extra`, so that a configuration survives a round trip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlamaConfig {
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
    pub extra: serde_json::Map<String, serde_json::Value>,
}

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

impl LlamaConfig {
    /// Reads and checks a `config.json`.
    ///
    /// # Errors
    /// A missing or malformed file, or an unsupported configuration (see [`LlamaConfig::check`]).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(spag_io::Error::io(path))?;
        let config: Self = serde_json::from_str(&text).map_err(|source| Error::Json {
            path: path.to_owned(),
            what: "config.json",
            source,
        })?;
        config.check().map_err(|e| match e {
            Error::Config(why) => Error::Config(format!("{}: {why}", path.display())),
            other => other,
        })?;
        Ok(config)
    }

    /// Checks that the sizes are consistent and that no key asks for an unsupported computation.
    ///
    /// # Errors
    /// [`Error::Config`] naming the key.
    pub fn check(&self) -> Result<()> {
        let fail = |why: String| Err(Error::Config(why));
        for (key, value) in [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("vocab_size", self.vocab_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.kv_heads()),
            ("max_position_embeddings", self.max_position_embeddings),
        ] {
            if value == 0 {
                return fail(format!("`{key}` is 0"));
            }
            if value > 1 << 31 {
                return fail(format!("`{key}` is {value}, which is out of range"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return fail(format!(
                "`hidden_size` {} is not a multiple of `num_attention_heads` {}",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if !self.num_attention_heads.is_multiple_of(self.kv_heads()) {
            return fail(format!(
                "`num_attention_heads` {} is not a multiple of `num_key_value_heads` {}",
                self.num_attention_heads,
                self.kv_heads()
            ));
        }
        if !self.head_dim().is_multiple_of(2) {
            return fail(format!("the head size {} is odd; RoPE needs an even head size", self.head_dim()));
        }
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if !positive(self.rms_norm_eps) || !positive(self.rope_theta) {
            return fail("`rms_norm_eps` and `rope_theta` must be positive".into());
        }
        self.check_extra()
    }

    /// Rejects keys of newer LLaMA-like models that change the computation and are not implemented.
    fn check_extra(&self) -> Result<()> {
        let fail = |why: String| Err(Error::Config(why));
        let extra = |key: &str| self.extra.get(key).filter(|v| !v.is_null());
        if let Some(kind) = extra("model_type").and_then(|v| v.as_str())
            && kind != "llama"
        {
            return fail(format!("`model_type` is \"{kind}\"; only \"llama\" is supported"));
        }
        if let Some(act) = extra("hidden_act").and_then(|v| v.as_str())
            && !matches!(act, "silu" | "swish")
        {
            return fail(format!("`hidden_act` is \"{act}\"; only \"silu\" is supported"));
        }
        if let Some(scaling) = extra("rope_scaling") {
            let kind = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(|v| v.as_str());
            if kind != Some("default") {
                return fail(format!("`rope_scaling` is {scaling}; only null is supported"));
            }
        }
        for key in ["attention_bias", "mlp_bias"] {
            if extra(key).and_then(|v| v.as_bool()) == Some(true) {
                return fail(format!("`{key}` is true; biases are not supported"));
            }
        }
        if let Some(size) = extra("head_dim").and_then(|v| v.as_u64())
            && size as usize != self.head_dim()
        {
            return fail(format!("`head_dim` is {size}; only hidden_size / num_attention_heads is supported"));
        }
        Ok(())
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

    fn config(change: &str) -> Result<LlamaConfig> {
        let base =
            r#"{"hidden_size":8,"intermediate_size":12,"vocab_size":10,"num_hidden_layers":1,"num_attention_heads":2"#;
        let config: LlamaConfig = serde_json::from_str(&format!("{base}{change}}}")).unwrap();
        config.check()?;
        Ok(config)
    }

    #[test]
    fn config_round_trips_with_defaults_and_unknown_keys() {
        let c = config(r#","use_cache":true,"eos_token_id":[2,7]"#).unwrap();
        assert_eq!((c.kv_heads(), c.head_dim(), c.eos_token_id), (2, 4, Some(2)));
        let again: LlamaConfig = serde_json::from_str(&serde_json::to_string(&c).unwrap()).unwrap();
        assert_eq!(again, c);
    }

    #[test]
    fn unsupported_computations_are_rejected() {
        for change in [
            r#","rope_scaling":{"type":"linear","factor":2.0}"#,
            r#","attention_bias":true"#,
            r#","hidden_act":"gelu""#,
            r#","model_type":"mistral""#,
            r#","num_key_value_heads":3"#,
            r#","num_key_value_heads":0"#,
            r#","head_dim":16"#,
        ] {
            assert!(matches!(config(change), Err(Error::Config(_))), "{change}");
        }
    }
}
