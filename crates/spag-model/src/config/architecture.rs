//! What a model computes, independent of the family it belongs to.

use crate::error::{Error, Result};
use crate::ops::attention::Heads;

use super::rope::Rope;

/// A dimension, at most.
const MAX_SIZE: usize = 1 << 31;
/// Blocks, at most. The largest published models have some 130. A layout lists every tensor of every block.
const MAX_LAYERS: usize = 1 << 14;
/// Parameters, at most: far beyond any machine, and small enough that no product of sizes overflows.
const MAX_PARAMETERS: u128 = 1 << 46;

/// A decoder of pre-norm blocks: RMSNorm, attention, RMSNorm, SwiGLU. Families differ in what the fields say.
///
/// Parsed from `config.json` by [`ModelConfig`](super::ModelConfig). Layout, initialisation, passes, KV cache and memory
/// formulas are derived from it; nothing else knows the family of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Architecture {
    /// Hidden size, D.
    pub hidden_size: usize,
    /// Feed-forward size, F.
    pub intermediate_size: usize,
    /// Vocabulary size, V.
    pub vocab_size: usize,
    /// Number of blocks, L.
    pub num_hidden_layers: usize,
    /// Query heads, key/value heads and head size. Heads × head size need not be D.
    pub heads: Heads,
    /// Maximum sequence length in tokens.
    pub max_position_embeddings: usize,
    /// ε of every RMSNorm.
    pub rms_norm_eps: f64,
    /// How the checkpoint stores the projections to queries, keys and values.
    pub projections: Projections,
    /// Which linear layers have a bias.
    pub biases: Biases,
    /// Whether queries and keys are normalised.
    pub head_norm: HeadNorm,
    /// How attention knows the positions of tokens.
    pub position: Position,
    /// The sliding window of each block: a token attends to itself and to the `window - 1` tokens before it.
    pub windows: Vec<Option<usize>>,
    /// The output head.
    pub head: OutputHead,
}

/// How a checkpoint stores the projections to queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projections {
    /// `q_proj`, `k_proj` and `v_proj`.
    Split,
    /// `W_pack`: the rows of queries, then those of keys, then those of values.
    Packed,
}

/// Which linear layers of a block have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// The projections to queries, keys and values.
    pub qkv: bool,
    /// The output projection of attention.
    pub output: bool,
    /// All three layers of the MLP.
    pub mlp: bool,
}

/// Whether queries and keys are normalised before the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorm {
    /// They are not.
    None,
    /// RMSNorm of every head, with one weight of head size for queries and one for keys.
    QueriesAndKeys,
}

/// How attention knows the positions of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Position {
    /// Queries and keys are rotated (Su et al. 2021).
    Rope(Rope),
    /// Scores fall linearly with the distance, in each head with another slope (Press et al. 2022).
    Alibi,
}

/// The output head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputHead {
    /// A matrix of its own.
    Plain,
    /// The embedding.
    Tied,
    /// A matrix of its own, whose rows are divided by their lengths in every forward pass.
    Normalised,
}

impl Architecture {
    /// Width of a row of queries: query heads × head size.
    pub fn query_size(&self) -> usize {
        self.heads.query * self.heads.dim
    }

    /// Width of a row of keys or values: key/value heads × head size.
    pub fn kv_size(&self) -> usize {
        self.heads.kv * self.heads.dim
    }

    /// Whether the output head is the embedding.
    pub fn is_tied(&self) -> bool {
        self.head == OutputHead::Tied
    }

    /// Whether the number of blocks is one that is supported.
    pub(super) fn has_layers_in_range(&self) -> bool {
        self.num_hidden_layers <= MAX_LAYERS
    }

    /// Checks sizes and numbers. The windows are made afterwards, for a number of blocks in range.
    pub(super) fn check(&self) -> Result<()> {
        let Heads { query, kv, dim } = self.heads;
        for (key, value, most) in [
            ("hidden_size", self.hidden_size, MAX_SIZE),
            ("intermediate_size", self.intermediate_size, MAX_SIZE),
            ("vocab_size", self.vocab_size, MAX_SIZE),
            ("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", query, MAX_SIZE),
            ("num_key_value_heads", kv, MAX_SIZE),
            ("head_dim", dim, MAX_SIZE),
            ("max_position_embeddings", self.max_position_embeddings, MAX_SIZE),
        ] {
            if value == 0 {
                return fail(format!("`{key}` is 0"));
            }
            if value > most {
                return fail(format!("`{key}` is {value}, which is out of range; at most {most} is supported"));
            }
        }
        if !query.is_multiple_of(kv) {
            return fail(format!("`num_attention_heads` {query} is not a multiple of `num_key_value_heads` {kv}"));
        }
        if !dim.is_multiple_of(2) && matches!(self.position, Position::Rope(_)) {
            return fail(format!("the head size {dim} is odd; RoPE needs an even head size"));
        }
        let parameters = self.count_parameters();
        if parameters > MAX_PARAMETERS {
            return fail(format!("these sizes make {parameters} parameters, which is out of range"));
        }
        check_f32("rms_norm_eps", self.rms_norm_eps, 1.0)
    }

    /// The number of parameters, without biases and head norms, from sizes that have not been checked.
    fn count_parameters(&self) -> u128 {
        let [d, f, v, layers] = [self.hidden_size, self.intermediate_size, self.vocab_size, self.num_hidden_layers]
            .map(|size| size as u128);
        let dim = self.heads.dim as u128;
        let (q, kv) = (self.heads.query as u128 * dim, self.heads.kv as u128 * dim);
        let block = (2 * (q + kv) + 3 * f + 2) * d;
        layers * block + d + v * d * if self.is_tied() { 1 } else { 2 }
    }
}

/// Refuses a number that is not above 0 and at most `most`, also as f32.
pub(super) fn check_f32(key: &str, value: f64, most: f64) -> Result<()> {
    match value as f32 {
        x if x > 0.0 && value <= most => Ok(()),
        _ => fail(format!("`{key}` is {value}; it must be above 0 and at most {most:e}")),
    }
}

pub(super) fn fail<T>(why: String) -> Result<T> {
    Err(Error::Config(why))
}
