//! Tensor names in GGUF files, and the row order of queries and keys.

use spag_io::quote;

use crate::checkpoint::format::RowOrder;
use crate::error::Result;
use crate::gguf::Gguf;
use crate::params::names;

/// Parts of a block: llama.cpp's and Hugging Face's names.
const PARTS: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Parts with other names in Gemma 3, which has norms before and after attention and MLP.
const PARTS_OF_GEMMA3: [(&str, &str); 3] = [
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

/// The architecture of Gemma 3.
pub(super) const GEMMA3: &str = "gemma3";
/// The frequency factors of RoPE, part of the configuration rather than a weight.
pub(super) const ROPE_FREQS: &str = "rope_freqs.weight";
pub(super) const EMBEDDING: &str = "token_embd.weight";
pub(super) const HEAD: &str = "output.weight";

/// The Hugging Face name of a tensor; the original name if unknown, so that the model's layout refuses it.
pub(super) fn hugging_face(architecture: &str, name: &str) -> String {
    match name {
        EMBEDDING => return names::EMBEDDING.into(),
        "output_norm.weight" => return names::NORM.into(),
        HEAD => return names::HEAD.into(),
        _ => {}
    }
    let in_block = || {
        let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
        let (part, kind) = rest.split_once('.')?;
        // Only in llama.cpp's spelling: 01 is not another name of layer 1.
        let is_number = layer.parse::<u32>().is_ok_and(|number| number.to_string() == layer);
        let others: &[_] = if architecture == GEMMA3 { &PARTS_OF_GEMMA3 } else { &[] };
        let (_, part) = others.iter().chain(&PARTS).find(|(own, _)| is_number && *own == part)?;
        matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{part}.{kind}"))
    };
    in_block().unwrap_or_else(|| name.to_owned())
}

/// What is added to the numbers of a tensor: llama.cpp's converter adds 1 to the norm weights of Gemma, which are less one.
pub(super) fn addend(architecture: &str, name: &str) -> f32 {
    if architecture == GEMMA3 && name.ends_with("norm.weight") { -1.0 } else { 0.0 }
}

/// The order of the rows of a tensor with this many rows.
///
/// llama.cpp rotates adjacent pairs in models of architecture llama, and pairs of head halves in all others. So its
/// converter reorders the rows of queries and keys of Hugging Face llama models; Meta's and Mistral's own files are
/// already in that order. The architecture alone determines the order in a file.
pub(super) fn row_order(gguf: &Gguf, name: &str, rows: usize) -> Result<RowOrder> {
    let heads = match name.split('.').nth(2) {
        Some("attn_q") => gguf.heads()?.0,
        Some("attn_k") => gguf.heads()?.1,
        _ => return Ok(RowOrder::AsUsed),
    };
    if gguf.architecture()? != "llama" {
        return Ok(RowOrder::AsUsed);
    }
    match rows.checked_div(heads) {
        Some(head) if head * heads == rows => Ok(RowOrder::Interleaved { head }),
        _ => Err(gguf.invalid(format!("tensor `{}` has {rows} rows for {heads} heads", quote(name)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_blocks_are_those_of_hugging_face_or_stay() {
        for (name, expected) in [
            ("blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"),
            ("blk.0.ffn_down.bias", "model.layers.0.mlp.down_proj.bias"),
            ("output_norm.weight", "model.norm.weight"),
            ("blk.01.attn_q.weight", "blk.01.attn_q.weight"),
            ("blk.+1.attn_q.weight", "blk.+1.attn_q.weight"),
            ("blk.1.ffn_gate_exps.weight", "blk.1.ffn_gate_exps.weight"),
            ("blk.1.attn_q.weight.x", "blk.1.attn_q.weight.x"),
        ] {
            assert_eq!(hugging_face("llama", name), expected);
        }
        for (name, expected, addend) in [
            ("blk.1.ffn_norm.weight", "model.layers.1.pre_feedforward_layernorm.weight", -1.0),
            ("blk.1.attn_q_norm.weight", "model.layers.1.self_attn.q_norm.weight", -1.0),
            ("blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight", 0.0),
            ("output_norm.weight", "model.norm.weight", -1.0),
        ] {
            assert_eq!((&*hugging_face(GEMMA3, name), super::addend(GEMMA3, name)), (expected, addend));
        }
        assert_eq!(addend("llama", "output_norm.weight"), 0.0);
    }
}
