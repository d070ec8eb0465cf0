//! The families: each is a function that makes an [`Architecture`] of a `config.json`, and a line of the table.

use serde_json::Value;
use spag_io::quote;

use super::architecture::{
    Architecture, Embeddings, HeadNorm, Modalities, NormWeights, Norms, OutputHead, Position, Projections,
};
use super::common::{Defaults, biases, common, common_with, refuse};
use super::family::{Computes, Family};
use super::keys::{Keys, check_f32, fail};
use super::rope::{self, Rope};
use super::windows;
use crate::error::Result;
use spag_ops::attention::Heads;
use spag_ops::glu::Activation;

const SILU: Computes = Computes { activations: &["silu", "swish"], keys: &[] };
const GEMMA3: Computes =
    Computes { activations: &["gelu_pytorch_tanh"], keys: &["query_pre_attn_scalar", "sliding_window_pattern"] };
const SMOLLM3: Computes = Computes { keys: &["no_rope_layers", "no_rope_layer_interval"], ..SILU };
const GRANITE: Computes = Computes {
    keys: &["embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"],
    ..SILU
};
const PHI3: Computes = Computes { keys: &["partial_rotary_factor"], ..SILU };

/// All families.
pub(super) const FAMILIES: [Family; 12] = [
    text("llama", "LlamaForCausalLM", llama, SILU),
    text("mistral", "MistralForCausalLM", mistral, SILU),
    text("qwen2", "Qwen2ForCausalLM", qwen2, SILU),
    text("olmo2", "Olmo2ForCausalLM", olmo2, SILU),
    text("olmo3", "Olmo3ForCausalLM", olmo3, SILU),
    text("smollm3", "SmolLM3ForCausalLM", smollm3, SMOLLM3),
    text("granite", "GraniteForCausalLM", granite, GRANITE),
    text("phi3", "Phi3ForCausalLM", phi3, PHI3),
    text("gemma3_text", "Gemma3ForCausalLM", gemma3, GEMMA3),
    Family {
        modalities: Modalities::TextAndImages,
        text_type: "gemma3_text",
        ..text("gemma3", "Gemma3ForConditionalGeneration", gemma3, GEMMA3)
    },
    text("qwen3", "Qwen3ForCausalLM", qwen3, SILU),
    text("baichuan", "BaichuanForCausalLM", baichuan2, SILU),
];

/// A family of text models.
const fn text(
    model_type: &'static str,
    class: &'static str,
    parse: fn(Keys<'_>) -> Result<Architecture>,
    computes: Computes,
) -> Family {
    Family { model_type, class, parse, computes, modalities: Modalities::Text, text_type: model_type }
}

/// LLaMA 1 to 3, SmolLM2, and every other model that transformers implements as `LlamaForCausalLM`.
fn llama(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["sliding_window", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults::default())?;
    model.biases = biases(keys)?;
    Ok(model)
}

/// Every block has the window. If the key is absent, it is 4096 tokens; null means none.
fn mistral(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["attention_bias", "mlp_bias", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults { positions: 1 << 17, kv_heads: Some(8), ..Defaults::default() })?;
    let window = if keys.contains("sliding_window") { keys.size("sliding_window")? } else { Some(4096) };
    model.windows = windows::of_blocks(&model, window, |_| true)?;
    Ok(model)
}

/// Qwen2 and Qwen2.5.
fn qwen2(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias"])?;
    if keys.truth("attention_bias")? == Some(false) {
        return fail("`attention_bias` is false; the queries, keys and values of Qwen2 have biases".into());
    }
    let mut model = common(keys, &Defaults { positions: 1 << 15, kv_heads: Some(32), ..Defaults::default() })?;
    model.biases.qkv = true;
    model.windows = windows::of_qwen(keys, &model)?;
    Ok(model)
}

fn qwen3(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias"])?;
    let defaults = Defaults { positions: 1 << 15, kv_heads: Some(32), head_dim: Some(128), ..Defaults::default() };
    let mut model = common(keys, &defaults)?;
    model.biases = biases(keys)?;
    model.head_norm = HeadNorm::QueriesAndKeys;
    model.windows = windows::of_qwen(keys, &model)?;
    Ok(model)
}

/// OLMo 2: norms after attention and MLP only.
fn olmo2(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias", "sliding_window", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults { rms_norm_eps: 1e-5, ..Defaults::default() })?;
    model.biases = biases(keys)?;
    (model.norms, model.head_norm) = (Norms::After, HeadNorm::WholeWidth);
    Ok(model)
}

/// OLMo 3: as OLMo 2, with windows in three of four blocks. Scaled RoPE is for blocks without a window; transformers gives
/// the others the default base, whatever `rope_theta` is.
fn olmo3(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias", "use_sliding_window"])?;
    let defaults = Defaults { rms_norm_eps: 1e-5, theta: 500_000.0, ..Defaults::default() };
    let (everywhere, in_window) = rope::of_kinds(keys, defaults.rope(), defaults.theta)?;
    let mut model = common_with(keys, &defaults, everywhere)?;
    model.biases = biases(keys)?;
    (model.norms, model.head_norm) = (Norms::After, HeadNorm::WholeWidth);
    model.window_rope = Some(in_window);
    model.windows = windows::of_kinds(keys, &model, 4)?;
    Ok(model)
}

/// SmolLM3: LLaMA with blocks without RoPE, every fourth unless `no_rope_layers` lists them.
fn smollm3(keys: Keys<'_>) -> Result<Architecture> {
    let defaults = Defaults {
        positions: 1 << 15,
        kv_heads: Some(4),
        theta: 2_000_000.0,
        head: OutputHead::Tied,
        ..Defaults::default()
    };
    let mut model = common(keys, &defaults)?;
    model.biases = biases(keys)?;
    model.without_rope = without_rope(keys, &model)?;
    model.windows = windows::of_smollm3(keys, &model)?;
    Ok(model)
}

/// The blocks with a 0 in `no_rope_layers`, or every `no_rope_layer_interval`-th.
fn without_rope(keys: Keys<'_>, model: &Architecture) -> Result<Vec<usize>> {
    // An out-of-range number of layers is refused later; nothing is allocated for it.
    let layers = if model.has_layers_in_range() { model.num_hidden_layers } else { 0 };
    let Some(listed) = keys.list("no_rope_layers")? else {
        let interval = keys.size("no_rope_layer_interval")?.unwrap_or(4);
        return match interval {
            0 => fail("`no_rope_layer_interval` is 0".into()),
            _ => Ok((0..layers).filter(|layer| (layer + 1) % interval == 0).collect()),
        };
    };
    if listed.len() < layers {
        return fail(format!("`no_rope_layers` has {} entries for {layers} layers", listed.len()));
    }
    let is_without = |value: &Value| match value.as_u64().or(value.as_bool().map(u64::from)) {
        Some(has_rope @ 0..=1) => Ok(has_rope == 0),
        _ => fail(format!("`no_rope_layers` has {}; 0 and 1 are supported", quote(&value.to_string()))),
    };
    let without = listed[..layers].iter().map(is_without).collect::<Result<Vec<_>>>()?;
    Ok((0..layers).filter(|layer| without[*layer]).collect())
}

/// Granite: LLaMA with factors of embeddings, branches, scores and logits.
fn granite(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["sliding_window", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults::default())?;
    model.biases = biases(keys)?;
    let factor = |key: &str| {
        let factor = keys.number(key)?.unwrap_or(1.0);
        check_f32(key, factor, 1e9).map(|()| factor)
    };
    let unless_one = |factor: f64| Some(factor).filter(|factor| *factor != 1.0);
    if let Some(factor) = unless_one(factor("embedding_multiplier")?) {
        model.embeddings = Embeddings::Times(factor);
    }
    model.residual_scale = unless_one(factor("residual_multiplier")?);
    // Instead of 1/√(head size), also if the key is absent.
    model.attention_scale = Some(factor("attention_multiplier")?);
    model.logit_divisor = unless_one(factor("logits_scaling")?);
    Ok(model)
}

/// Phi-3: LLaMA with fused projections, and a window in every block if `sliding_window` is set.
fn phi3(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["attention_bias", "mlp_bias", "use_sliding_window", "layer_types"])?;
    let defaults = Defaults { positions: 4096, rms_norm_eps: 1e-5, ..Defaults::default() };
    let mut model = common_with(keys, &defaults, rope::of_phi3(keys, defaults.rope())?)?;
    model.projections = Projections::Fused;
    model.windows = windows::of_blocks(&model, keys.size("sliding_window")?, |_| true)?;
    Ok(model)
}

/// Gemma 3, text only: norms before and after, norm weights minus one, GeGLU, and blocks with a window between blocks
/// without, with separate RoPE settings.
fn gemma3(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias", "use_sliding_window", "use_bidirectional_attention"])?;
    let defaults = Defaults {
        positions: 1 << 17,
        kv_heads: Some(4),
        head_dim: Some(256),
        theta: 1_000_000.0,
        head: OutputHead::Tied,
        // The published configurations of models with images name some of these.
        sizes: &[
            ("hidden_size", 2304),
            ("intermediate_size", 9216),
            ("num_hidden_layers", 26),
            ("num_attention_heads", 8),
            ("vocab_size", 262_208),
        ],
        ..Defaults::default()
    };
    let base_in_window = keys.number("rope_local_base_freq")?.unwrap_or(10_000.0);
    let (everywhere, in_window) = rope::of_kinds(keys, defaults.rope(), base_in_window)?;
    let mut model = common_with(keys, &defaults, everywhere)?;
    model.biases = biases(keys)?;
    (model.norms, model.norm_weights) = (Norms::BeforeAndAfter, NormWeights::FactorsLessOne);
    (model.activation, model.embeddings) = (Activation::GeGlu, Embeddings::TimesSqrtHidden);
    (model.head_norm, model.window_rope) = (HeadNorm::QueriesAndKeys, Some(in_window));
    let scalar = keys.number("query_pre_attn_scalar")?.unwrap_or(256.0);
    check_f32("query_pre_attn_scalar", scalar, 1e9)?;
    if scalar != model.heads.dim as f64 {
        model.attention_scale = Some(scalar.powf(-0.5));
    }
    let period = keys.size("sliding_window_pattern")?.or(keys.size("_sliding_window_pattern")?).unwrap_or(6);
    model.windows = windows::of_kinds(keys, &model, period.max(1))?;
    Ok(model)
}

/// What the keys outside of `text_config` change in its model.
pub(super) fn of_multimodal(keys: Keys<'_>, model: &mut Architecture) -> Result<()> {
    model.modalities = Modalities::TextAndImages;
    model.head = match keys.truth("tie_word_embeddings")?.unwrap_or(true) {
        true => OutputHead::Tied,
        false => OutputHead::Plain,
    };
    Ok(())
}

/// Baichuan2-7B and 13B. Their configurations differ in one key: 7B, with RoPE, has `max_position_embeddings`; 13B,
/// with ALiBi, does not.
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
