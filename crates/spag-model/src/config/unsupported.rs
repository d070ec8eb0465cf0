//! Keys that change the computation in models of other families and are not supported by any family here. A
//! configuration that sets one is refused.

use serde_json::Value;
use spag_io::quote;

use super::family::Computes;
use super::keys::{Keys, fail};
use crate::error::Result;

/// Off by default: null, false, 0, "none", or empty. Names are separated by blanks.
const OFF: [&str; 6] = [
    // Scores and logits that are capped or clipped.
    "attn_logit_softcapping attn_logit_softcap final_logit_softcapping logits_soft_cap clip_qkv query_pre_attn_scalar",
    // Other query and key norms.
    "use_qk_norm qk_norm qk_layernorm use_post_norm apply_residual_connection_post_layernorm norm_reorder",
    // Other attention.
    "alibi use_alibi attention_chunk_size attention_sink_size attn_temperature_tuning sliding_window_pattern \
     interleaved_sliding_window no_rope_layers no_rope_layer_interval nope_layer_interval kv_lora_rank q_lora_rank \
     kv_shared_layer_index num_kv_shared_layers cross_attention_layers cross_attention_hidden_size add_cross_attention \
     multi_query new_decoder_architecture use_parallel_residual parallel_attn rotary_dim",
    // Biases under other names.
    "use_bias bias qkv_bias use_qkv_bias attention_out_bias add_bias_linear lm_head_bias",
    // Mixtures of experts.
    "num_experts num_local_experts num_experts_per_tok n_routed_experts n_shared_experts moe_intermediate_size \
     moe_num_experts",
    // Other kinds of models or weights.
    "is_encoder_decoder pruned_heads quantization_config compression_config layers_block_type attn_layer_period \
     scale_depth dim_model_base",
];
/// 1 by default.
const ONE: &str = "partial_rotary_factor rotary_pct rotary_percentage rope_ratio rope_factor embedding_multiplier \
                   attention_multiplier residual_multiplier logits_scaling logit_scale scale_emb embedding_scale";

/// Refuses a configuration with a key that requests an unsupported computation.
pub(super) fn check(keys: Keys<'_>, computes: Computes) -> Result<()> {
    for key in ["hidden_act", "hidden_activation"] {
        if let Some(act) = keys.text(key)?
            && !computes.activations.contains(&act)
        {
            let usual = computes.activations[0];
            return fail(format!("`{key}` is \"{}\"; only \"{usual}\" is supported", quote(act)));
        }
    }
    let positions = keys.text("position_embedding_type")?.unwrap_or("rope");
    if !["rope", "rotary"].iter().any(|kind| positions.eq_ignore_ascii_case(kind)) {
        return fail(format!("`position_embedding_type` is \"{}\"; it is not supported", quote(positions)));
    }
    let off = OFF.into_iter().flat_map(str::split_whitespace).map(|key| (key, is_off as fn(&Value) -> bool));
    let one = ONE.split_whitespace().map(|key| (key, is_one as fn(&Value) -> bool));
    for (key, is_default) in off.chain(one).filter(|(key, _)| !computes.keys.contains(key)) {
        if let Some(value) = keys.get(key).filter(|value| !is_default(value)) {
            let value = quote(&value.to_string());
            return fail(format!("`{key}` is {value}: it changes the computation and is not supported"));
        }
    }
    Ok(())
}

fn is_off(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "none",
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}
