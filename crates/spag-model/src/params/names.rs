//! The tensors of an architecture: their roles, and their names in a checkpoint.

use crate::config::{Architecture, HeadNorm, Norms, Projections};

/// The embedding.
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
/// The norm before the output head.
pub(crate) const NORM: &str = "model.norm.weight";
/// The output head.
pub(crate) const HEAD: &str = "lm_head.weight";

/// The role of a tensor in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The embedding, [V, D].
    Embedding,
    /// The norm of attention, `[D]`.
    AttentionNorm,
    /// The norm of attention's output, `[D]`.
    AttentionPostNorm,
    /// The query projection, [query size, D].
    Query,
    /// The key projection, [KV size, D].
    Key,
    /// The value projection, [KV size, D].
    Value,
    /// The bias of queries, `[query size]`.
    QueryBias,
    /// The bias of keys, `[KV size]`.
    KeyBias,
    /// The bias of values, `[KV size]`.
    ValueBias,
    /// The norm of every query head, `[head size]`, or of all queries, `[query size]`.
    QueryNorm,
    /// The norm of every key head, `[head size]`, or of all keys, `[KV size]`.
    KeyNorm,
    /// The output projection of attention, [D, query size].
    Output,
    /// The bias of attention's output projection, `[D]`.
    OutputBias,
    /// The norm of the MLP, `[D]`.
    MlpNorm,
    /// The norm of the MLP's output, `[D]`.
    MlpPostNorm,
    /// The gate of the MLP, [F, D].
    Gate,
    /// The up projection of the MLP, [F, D].
    Up,
    /// The bias of the gate, `[F]`.
    GateBias,
    /// The bias of the up projection, `[F]`.
    UpBias,
    /// The down projection of the MLP, [D, F].
    Down,
    /// The bias of the down projection, `[D]`.
    DownBias,
    /// The norm before the output head, `[D]`.
    FinalNorm,
    /// The output head, [V, D].
    Head,
    /// A matrix of an adapter, [r, I] or [O, r].
    Adapter,
}

/// How a tensor is initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initial {
    Ones,
    Zeros,
    Normal,
}

impl Part {
    pub(crate) fn initial(self) -> Initial {
        match self {
            Self::AttentionNorm | Self::MlpNorm | Self::FinalNorm | Self::QueryNorm | Self::KeyNorm => Initial::Ones,
            Self::AttentionPostNorm | Self::MlpPostNorm => Initial::Ones,
            Self::QueryBias | Self::KeyBias | Self::ValueBias | Self::OutputBias => Initial::Zeros,
            Self::GateBias | Self::UpBias | Self::DownBias => Initial::Zeros,
            Self::Embedding | Self::Query | Self::Key | Self::Value | Self::Output => Initial::Normal,
            Self::Gate | Self::Up | Self::Down | Self::Head | Self::Adapter => Initial::Normal,
        }
    }
}

/// A tensor of a checkpoint by its name inside the block, with its stacked parts.
type BlockTensor = (&'static str, Vec<(Part, Vec<usize>)>);

/// The tensors of a block, in parameter order. Parts with the same input are adjacent, weights and biases separately, so
/// that they can be multiplied as one matrix.
pub(super) fn of_block(model: &Architecture) -> Vec<BlockTensor> {
    let (d, f) = (model.hidden_size, model.intermediate_size);
    let (q, kv) = (model.query_size(), model.kv_size());
    let one = |name, part, shape: &[usize]| (name, vec![(part, shape.to_vec())]);
    let stacked =
        |name, rows: &[(Part, usize)]| (name, rows.iter().map(|(part, rows)| (*part, vec![*rows, d])).collect());
    let qkv = [(Part::Query, q), (Part::Key, kv), (Part::Value, kv)];
    let mut all = Vec::new();
    if model.norms.before() {
        all.push(one("input_layernorm.weight", Part::AttentionNorm, &[d]));
    }
    match model.projections {
        Projections::Split => all.extend([
            one("self_attn.q_proj.weight", Part::Query, &[q, d]),
            one("self_attn.k_proj.weight", Part::Key, &[kv, d]),
            one("self_attn.v_proj.weight", Part::Value, &[kv, d]),
        ]),
        Projections::Packed => all.push(stacked("self_attn.W_pack.weight", &qkv)),
        Projections::Fused => all.push(stacked("self_attn.qkv_proj.weight", &qkv)),
    }
    if model.biases.qkv {
        all.extend([
            one("self_attn.q_proj.bias", Part::QueryBias, &[q]),
            one("self_attn.k_proj.bias", Part::KeyBias, &[kv]),
            one("self_attn.v_proj.bias", Part::ValueBias, &[kv]),
        ]);
    }
    let of_norms = match model.head_norm {
        HeadNorm::None => None,
        HeadNorm::QueriesAndKeys => Some((model.heads.dim, model.heads.dim)),
        HeadNorm::WholeWidth => Some((q, kv)),
    };
    if let Some((of_queries, of_keys)) = of_norms {
        all.push(one("self_attn.q_norm.weight", Part::QueryNorm, &[of_queries]));
        all.push(one("self_attn.k_norm.weight", Part::KeyNorm, &[of_keys]));
    }
    all.push(one("self_attn.o_proj.weight", Part::Output, &[d, q]));
    if model.biases.output {
        all.push(one("self_attn.o_proj.bias", Part::OutputBias, &[d]));
    }
    match model.norms {
        Norms::Before => all.push(one("post_attention_layernorm.weight", Part::MlpNorm, &[d])),
        Norms::After => all.push(one("post_attention_layernorm.weight", Part::AttentionPostNorm, &[d])),
        Norms::BeforeAndAfter => all.extend([
            one("post_attention_layernorm.weight", Part::AttentionPostNorm, &[d]),
            one("pre_feedforward_layernorm.weight", Part::MlpNorm, &[d]),
        ]),
    }
    match model.projections {
        Projections::Split | Projections::Packed => {
            all.extend([one("mlp.gate_proj.weight", Part::Gate, &[f, d]), one("mlp.up_proj.weight", Part::Up, &[f, d])])
        }
        Projections::Fused => all.push(stacked("mlp.gate_up_proj.weight", &[(Part::Gate, f), (Part::Up, f)])),
    }
    if model.biases.mlp {
        all.push(one("mlp.gate_proj.bias", Part::GateBias, &[f]));
        all.push(one("mlp.up_proj.bias", Part::UpBias, &[f]));
    }
    all.push(one("mlp.down_proj.weight", Part::Down, &[d, f]));
    if model.biases.mlp {
        all.push(one("mlp.down_proj.bias", Part::DownBias, &[d]));
    }
    if model.norms.after() {
        all.push(one("post_feedforward_layernorm.weight", Part::MlpPostNorm, &[d]));
    }
    all
}
