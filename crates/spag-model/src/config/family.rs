//! The families of models that are computed, and how each one's `config.json` describes its architecture.

use serde_json::Value;
use spag_io::quote;

use super::architecture::{Architecture, Biases, HeadNorm, OutputHead, Position, Projections, fail};
use super::keys::Keys;
use super::rope::Rope;
use crate::error::Result;
use crate::ops::attention::Heads;

/// A family of models.
pub(super) struct Family {
    /// `model_type` in `config.json`.
    pub(super) model_type: &'static str,
    /// The class in `architectures`.
    pub(super) class: &'static str,
    /// The architecture that the keys describe, without [`Architecture::check`].
    pub(super) parse: fn(Keys<'_>) -> Result<Architecture>,
}

/// All families.
const FAMILIES: [Family; 5] = [
    Family { model_type: "llama", class: "LlamaForCausalLM", parse: llama },
    Family { model_type: "mistral", class: "MistralForCausalLM", parse: mistral },
    Family { model_type: "qwen2", class: "Qwen2ForCausalLM", parse: qwen2 },
    Family { model_type: "qwen3", class: "Qwen3ForCausalLM", parse: qwen3 },
    Family { model_type: "baichuan", class: "BaichuanForCausalLM", parse: baichuan2 },
];

impl Family {
    /// The family of a configuration: by `model_type`, else by the class in `architectures`. A configuration that names
    /// neither is LLaMA's.
    pub(super) fn of(keys: Keys<'_>) -> Result<&'static Self> {
        if let Some(kind) = keys.text("model_type")? {
            return match FAMILIES.iter().find(|family| family.model_type == kind) {
                Some(family) => Ok(family),
                None => fail(format!("`model_type` is \"{}\"; {} are supported", quote(kind), names())),
            };
        }
        let Some(class) = keys.list("architectures")?.and_then(|list| list.first()).and_then(Value::as_str) else {
            return Ok(&FAMILIES[0]);
        };
        match FAMILIES.iter().find(|family| family.class == class) {
            Some(family) => Ok(family),
            None => fail(format!("`architectures` names \"{}\"; the models {} are supported", quote(class), names())),
        }
    }
}

/// All families, for messages.
fn names() -> String {
    let names = FAMILIES.map(|family| format!("\"{}\"", family.model_type));
    let (last, first) = names.split_last().map_or((String::new(), &names[..0]), |(last, first)| (last.clone(), first));
    format!("{} and {last}", first.join(", "))
}

/// What transformers takes for keys that are absent.
#[derive(Default)]
struct Defaults {
    positions: usize,
    /// The number of query heads if `None`.
    kv_heads: Option<usize>,
    /// Hidden size / query heads if `None`.
    head_dim: Option<usize>,
}

/// The keys that all families have: a model without biases, head norms and windows, with RoPE.
fn common(keys: Keys<'_>, defaults: &Defaults) -> Result<Architecture> {
    let hidden_size = keys.required_size("hidden_size")?;
    let query = keys.required_size("num_attention_heads")?;
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
        _ => OutputHead::Plain,
    };
    Ok(Architecture {
        hidden_size,
        intermediate_size: keys.required_size("intermediate_size")?,
        vocab_size: keys.required_size("vocab_size")?,
        num_hidden_layers: keys.required_size("num_hidden_layers")?,
        heads: Heads { query, kv, dim },
        max_position_embeddings: keys.size("max_position_embeddings")?.unwrap_or(defaults.positions),
        rms_norm_eps: keys.number("rms_norm_eps")?.unwrap_or(1e-6),
        projections: Projections::Split,
        biases: Biases::default(),
        head_norm: HeadNorm::None,
        position: Position::Rope(Rope::parse(keys)?),
        windows: Vec::new(),
        head,
    })
}

/// LLaMA 1 to 3, SmolLM2, and everything else that transformers computes as `LlamaForCausalLM`.
fn llama(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["sliding_window", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults { positions: 2048, ..Defaults::default() })?;
    let attention = keys.truth("attention_bias")?.unwrap_or(false);
    model.biases = Biases { qkv: attention, output: attention, mlp: keys.truth("mlp_bias")?.unwrap_or(false) };
    Ok(model)
}

/// Every block has the window. A configuration without the key has one of 4096 tokens, one with null has none.
fn mistral(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["attention_bias", "mlp_bias", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults { positions: 1 << 17, kv_heads: Some(8), head_dim: None })?;
    let window = if keys.contains("sliding_window") { keys.size("sliding_window")? } else { Some(4096) };
    model.windows = windows(&model, window, |_| true)?;
    Ok(model)
}

/// Qwen2 and Qwen2.5.
fn qwen2(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias"])?;
    if keys.truth("attention_bias")? == Some(false) {
        return fail("`attention_bias` is false; the queries, keys and values of Qwen2 have biases".into());
    }
    let mut model = common(keys, &Defaults { positions: 1 << 15, kv_heads: Some(32), head_dim: None })?;
    model.biases.qkv = true;
    model.windows = qwen_windows(keys, &model)?;
    Ok(model)
}

fn qwen3(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias"])?;
    let mut model = common(keys, &Defaults { positions: 1 << 15, kv_heads: Some(32), head_dim: Some(128) })?;
    let attention = keys.truth("attention_bias")?.unwrap_or(false);
    model.biases = Biases { qkv: attention, output: attention, mlp: false };
    model.head_norm = HeadNorm::QueriesAndKeys;
    model.windows = qwen_windows(keys, &model)?;
    Ok(model)
}

/// `layer_types`, or the blocks from `max_window_layers` on, have the window, if `use_sliding_window` is true.
fn qwen_windows(keys: Keys<'_>, model: &Architecture) -> Result<Vec<Option<usize>>> {
    let window = match keys.truth("use_sliding_window")?.unwrap_or(false) {
        true if keys.contains("sliding_window") => keys.size("sliding_window")?,
        true => Some(4096),
        false => None,
    };
    let Some(types) = keys.list("layer_types")? else {
        let full = keys.size("max_window_layers")?.unwrap_or(28);
        return windows(model, window, |layer| layer >= full);
    };
    if types.len() != model.num_hidden_layers {
        let layers = model.num_hidden_layers;
        return fail(format!("`layer_types` has {} entries for {layers} layers", types.len()));
    }
    let mut sliding = Vec::with_capacity(types.len());
    for kind in types {
        sliding.push(match (kind.as_str(), window) {
            (Some("full_attention"), _) => false,
            (Some("sliding_attention"), Some(_)) => true,
            _ => {
                let kind = quote(&kind.to_string());
                return fail(format!(
                    "`layer_types` has {kind}; \"full_attention\" is supported, and \"sliding_attention\" with \
                     `use_sliding_window` and `sliding_window`"
                ));
            }
        });
    }
    windows(model, window, |layer| sliding.get(layer) == Some(&true))
}

/// The window of each block; those that `sliding` names have `window`.
fn windows(model: &Architecture, window: Option<usize>, sliding: impl Fn(usize) -> bool) -> Result<Vec<Option<usize>>> {
    if window == Some(0) {
        return fail("`sliding_window` is 0".into());
    }
    // A number of layers out of range is refused later; nothing is allocated for it.
    let layers = if window.is_some() && model.has_layers_in_range() { model.num_hidden_layers } else { 0 };
    Ok((0..layers).map(|layer| window.filter(|_| sliding(layer))).collect())
}

/// Baichuan2-7B and 13B. Their configurations differ in one key: 7B, which has RoPE, names `max_position_embeddings`;
/// 13B, which has ALiBi, does not.
fn baichuan2(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["attention_bias", "mlp_bias", "sliding_window", "use_sliding_window", "layer_types"])?;
    refuse(keys, &["rope_scaling", "rope_parameters", "tie_word_embeddings"])?;
    let first = keys.list("architectures")?.and_then(|list| list.first()).and_then(Value::as_str);
    if first == Some("BaiChuanForCausalLM") || keys.size("vocab_size")? == Some(64_000) {
        return fail("this is a model of Baichuan 1; Baichuan 2 is supported".into());
    }
    let alibi = keys.get("max_position_embeddings").is_none();
    let positions = keys.size("model_max_length")?.unwrap_or(4096);
    let mut model = common(keys, &Defaults { positions, ..Defaults::default() })?;
    let Heads { query, kv, dim } = model.heads;
    if kv != query || dim * query != model.hidden_size {
        return fail(
            "`num_key_value_heads` or `head_dim` differs from what Baichuan 2 computes: one key head for \
                     each query head, of `hidden_size` / `num_attention_heads`"
                .into(),
        );
    }
    if model.position != Position::Rope(Rope::new(10_000.0)) {
        return fail("`rope_theta` is not 10000, which Baichuan 2 computes with".into());
    }
    if alibi {
        model.position = Position::Alibi;
    }
    (model.projections, model.head) = (Projections::Packed, OutputHead::Normalised);
    Ok(model)
}

/// Refuses keys that the family does not have, unless they ask for nothing.
fn refuse(keys: Keys<'_>, unknown: &[&str]) -> Result<()> {
    for key in unknown {
        if let Some(value) = keys.get(key).filter(|value| **value != Value::Bool(false)) {
            let value = quote(&value.to_string());
            return fail(format!("`{key}` is {value}; models of this `model_type` do not have it"));
        }
    }
    Ok(())
}
