//! What families have in common: defaults, keys that all have, and keys that a family refuses.

use serde_json::Value;
use spag_io::quote;

use super::architecture::{
    Architecture, Biases, Embeddings, HeadNorm, Modalities, NormWeights, Norms, OutputHead, Position, Projections,
};
use super::keys::{Keys, fail};
use super::rope::{Rope, RopeDefaults};
use crate::error::Result;
use spag_ops::attention::Heads;
use spag_ops::glu::Activation;

/// Defaults of transformers for absent keys.
pub(super) struct Defaults {
    pub(super) positions: usize,
    /// The number of query heads if `None`.
    pub(super) kv_heads: Option<usize>,
    /// Hidden size / query heads if `None`.
    pub(super) head_dim: Option<usize>,
    /// The base of RoPE.
    pub(super) theta: f64,
    pub(super) rms_norm_eps: f64,
    pub(super) head: OutputHead,
    /// Of keys that are required in other families.
    pub(super) sizes: &'static [(&'static str, usize)],
}

/// Those of LLaMA.
impl Default for Defaults {
    fn default() -> Self {
        Self {
            positions: 2048,
            kv_heads: None,
            head_dim: None,
            theta: 10_000.0,
            rms_norm_eps: 1e-6,
            head: OutputHead::Plain,
            sizes: &[],
        }
    }
}

impl Defaults {
    /// A size that is required, unless there is a default.
    fn size(&self, keys: Keys<'_>, key: &str) -> Result<usize> {
        match self.sizes.iter().find(|(name, _)| *name == key) {
            Some((_, default)) => Ok(keys.size(key)?.unwrap_or(*default)),
            None => keys.required_size(key),
        }
    }

    /// Those of RoPE.
    pub(super) fn rope(&self) -> RopeDefaults {
        RopeDefaults { theta: self.theta, positions: self.positions }
    }
}

/// Parses the keys common to all families: a model without biases, head norms and windows, with RoPE.
pub(super) fn common(keys: Keys<'_>, defaults: &Defaults) -> Result<Architecture> {
    common_with(keys, defaults, Rope::parse(keys, defaults.rope())?)
}

/// [`common`] with the given RoPE.
pub(super) fn common_with(keys: Keys<'_>, defaults: &Defaults, rope: Rope) -> Result<Architecture> {
    let hidden_size = defaults.size(keys, "hidden_size")?;
    let query = defaults.size(keys, "num_attention_heads")?;
    let kv_default = if keys.contains("num_key_value_heads") { None } else { defaults.kv_heads };
    let kv = keys.size("num_key_value_heads")?.or(kv_default).unwrap_or(query);
    let dim_default = if keys.contains("head_dim") { None } else { defaults.head_dim };
    let dim = match keys.size("head_dim")?.or(dim_default) {
        Some(dim) => dim,
        None if query > 0 && !hidden_size.is_multiple_of(query) => {
            return fail(format!("`hidden_size` {hidden_size} is not a multiple of `num_attention_heads` {query}"));
        }
        None => hidden_size.checked_div(query).unwrap_or(0),
    };
    let head = match keys.truth("tie_word_embeddings")? {
        Some(true) => OutputHead::Tied,
        Some(false) => OutputHead::Plain,
        None => defaults.head,
    };
    Ok(Architecture {
        hidden_size,
        intermediate_size: defaults.size(keys, "intermediate_size")?,
        vocab_size: defaults.size(keys, "vocab_size")?,
        num_hidden_layers: defaults.size(keys, "num_hidden_layers")?,
        heads: Heads { query, kv, dim },
        max_position_embeddings: keys.size("max_position_embeddings")?.unwrap_or(defaults.positions),
        rms_norm_eps: keys.number("rms_norm_eps")?.unwrap_or(defaults.rms_norm_eps),
        norms: Norms::Before,
        projections: Projections::Split,
        biases: Biases::default(),
        head_norm: HeadNorm::None,
        norm_weights: NormWeights::Factors,
        activation: Activation::SwiGlu,
        embeddings: Embeddings::AsStored,
        attention_scale: None,
        window_rope: None,
        position: Position::Rope(rope),
        without_rope: Vec::new(),
        windows: Vec::new(),
        residual_scale: None,
        head,
        logit_divisor: None,
        modalities: Modalities::Text,
    })
}

/// `attention_bias` of all attention layers, and `mlp_bias`. Families without the latter refuse it.
pub(super) fn biases(keys: Keys<'_>) -> Result<Biases> {
    let [attention, mlp] = [keys.truth("attention_bias")?, keys.truth("mlp_bias")?].map(Option::unwrap_or_default);
    Ok(Biases { qkv: attention, output: attention, mlp })
}

/// Refuses keys that the family does not support, unless they have no effect.
pub(super) fn refuse(keys: Keys<'_>, unknown: &[&str]) -> Result<()> {
    for key in unknown {
        if let Some(value) = keys.get(key).filter(|value| **value != Value::Bool(false)) {
            let value = quote(&value.to_string());
            return fail(format!("`{key}` is {value}; models of this `model_type` do not have it"));
        }
    }
    Ok(())
}
