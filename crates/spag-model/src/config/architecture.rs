//! The architecture of a model.
//!
//! `families.rs` makes it of each family's `config.json`. A new option is a field here, computed in `model/block.rs` (forward
//! pass) and `model/train_block.rs` (backward pass); `params/names.rs` names its tensors.

use super::rope::Rope;
use spag_ops::attention::Heads;
use spag_ops::glu::Activation;

/// A decoder of blocks of attention and a gated MLP, with RMSNorms. Families differ only in these fields.
///
/// Parsed from `config.json` by [`ModelConfig`](super::ModelConfig). Layout, initialisation, passes, KV cache and memory
/// formulas are derived from it; no other code depends on the family.
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
    /// The positions of norms in a block.
    pub norms: Norms,
    /// How the checkpoint stores projections with the same input.
    pub projections: Projections,
    /// Which linear layers have a bias.
    pub biases: Biases,
    /// Whether queries and keys are normalised.
    pub head_norm: HeadNorm,
    /// How the weights of norms are stored.
    pub norm_weights: NormWeights,
    /// The activation of the MLP.
    pub activation: Activation,
    /// Processing of embeddings before the first block.
    pub embeddings: Embeddings,
    /// The scale of attention scores; 1/√(head size) if `None`.
    pub attention_scale: Option<f64>,
    /// Position encoding.
    pub position: Position,
    /// RoPE of blocks with a window, if it differs from that of the other blocks.
    pub window_rope: Option<Rope>,
    /// Blocks without RoPE, by index.
    pub without_rope: Vec<usize>,
    /// The sliding window of each block: a token attends to itself and to the `window - 1` tokens before it.
    pub windows: Vec<Option<usize>>,
    /// The factor of the outputs of attention and MLP before they are added; 1 if `None`.
    pub residual_scale: Option<f64>,
    /// The output head.
    pub head: OutputHead,
    /// The divisor of logits; 1 if `None`.
    pub logit_divisor: Option<f64>,
    /// What the model of the checkpoint reads.
    pub modalities: Modalities,
}

/// What the model of a checkpoint reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modalities {
    /// Texts.
    Text,
    /// Texts and images. The text model is read, and the tensors for images are not.
    TextAndImages,
}

impl Modalities {
    /// The prefix of the names of the model's tensors.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::TextAndImages => "language_model.",
        }
    }
}

/// The positions of norms in a block, except those of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norms {
    /// Before attention and before the MLP.
    Before,
    /// Before both, and after both, before their output is added.
    BeforeAndAfter,
    /// After both.
    After,
}

impl Norms {
    /// Whether the inputs of attention and MLP are normalised.
    pub fn before(self) -> bool {
        self != Self::After
    }

    /// Whether the outputs of attention and MLP are normalised.
    pub fn after(self) -> bool {
        self != Self::Before
    }
}

/// How a checkpoint stores projections with the same input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projections {
    /// `q_proj`, `k_proj` and `v_proj`.
    Split,
    /// `W_pack`: the rows of queries, keys and values, in this order.
    Packed,
    /// `qkv_proj` as `W_pack`, and `gate_up_proj`: the rows of the gate, then those of the up projection.
    Fused,
}

/// Which linear layers of a block have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// The query, key and value projections.
    pub qkv: bool,
    /// The output projection of attention.
    pub output: bool,
    /// All three layers of the MLP.
    pub mlp: bool,
}

/// Normalisation of queries and keys before RoPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorm {
    /// None.
    None,
    /// RMSNorm of every head, with one weight of head size for queries and one for keys.
    QueriesAndKeys,
    /// RMSNorm over all queries of a token together, and over all its keys, with one weight for each.
    WholeWidth,
}

/// How the weights of norms are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormWeights {
    /// Factors.
    Factors,
    /// Factors minus one.
    FactorsLessOne,
}

impl NormWeights {
    /// The offset added to a stored weight.
    pub fn offset(self) -> f32 {
        match self {
            Self::Factors => 0.0,
            Self::FactorsLessOne => 1.0,
        }
    }
}

/// Processing of embeddings before the first block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Embeddings {
    /// None.
    AsStored,
    /// Multiplied by √(hidden size), rounded to the number format of the weights.
    TimesSqrtHidden,
    /// Multiplied by a factor.
    Times(f64),
}

/// Position encoding.
#[derive(Clone, Debug, PartialEq)]
pub enum Position {
    /// Queries and keys are rotated (Su et al. 2021).
    Rope(Rope),
    /// Scores decrease linearly with distance, with one slope per head (Press et al. 2022).
    Alibi,
}

/// The output head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputHead {
    /// A separate matrix.
    Plain,
    /// The embedding.
    Tied,
    /// A separate matrix, whose rows are normalised in every forward pass.
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

    /// The RoPE of a block, if it has one.
    pub fn rope(&self, layer: usize) -> Option<&Rope> {
        let Position::Rope(everywhere) = &self.position else { return None };
        let has_window = self.windows.get(layer).is_some_and(Option::is_some);
        let in_window = self.window_rope.as_ref().filter(|_| has_window);
        if self.without_rope.contains(&layer) { None } else { Some(in_window.unwrap_or(everywhere)) }
    }

    /// The length in tokens after which all tokens of a sequence have other RoPE frequencies; `None` if frequencies do not depend
    /// on it.
    pub fn long_after(&self) -> Option<usize> {
        match &self.position {
            Position::Rope(rope) => rope.long_after(),
            Position::Alibi => None,
        }
    }

    /// Whether the output head is the embedding.
    pub fn is_tied(&self) -> bool {
        self.head == OutputHead::Tied
    }
}
