//! The architecture of a model, and how it is parsed from each family's `config.json`.
//!
//! A family made of supported parts is one function here. A new option is a field of [`Architecture`], computed in
//! `model/block.rs` (forward pass) and `model/train_block.rs` (backward pass); `params/names.rs` names its tensors.

use serde_json::Value;
use spag_io::quote;

use super::keys::{Keys, check_f32, fail};
use super::rope::{self, Rope};
use super::windows;
use crate::error::Result;
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
    /// How the checkpoint stores the query, key and value projections.
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
    /// The sliding window of each block: a token attends to itself and to the `window - 1` tokens before it.
    pub windows: Vec<Option<usize>>,
    /// The output head.
    pub head: OutputHead,
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

/// How a checkpoint stores the query, key and value projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projections {
    /// `q_proj`, `k_proj` and `v_proj`.
    Split,
    /// `W_pack`: the rows of queries, keys and values, in this order.
    Packed,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embeddings {
    /// None.
    AsStored,
    /// Multiplied by √(hidden size), rounded to the number format of the weights.
    TimesSqrtHidden,
}

/// Position encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// Whether the output head is the embedding.
    pub fn is_tied(&self) -> bool {
        self.head == OutputHead::Tied
    }
}

/// A model family.
pub(super) struct Family {
    /// `model_type` in `config.json`.
    pub(super) model_type: &'static str,
    /// The class in `architectures`.
    pub(super) class: &'static str,
    /// Parses the architecture from the keys, without [`Architecture::check`].
    pub(super) parse: fn(Keys<'_>) -> Result<Architecture>,
    /// The options that this family supports and others do not.
    pub(super) computes: Computes,
}

/// The options that a family supports and others do not.
#[derive(Clone, Copy)]
pub(super) struct Computes {
    /// Supported names of its activation; the first is the default.
    pub(super) activations: &'static [&'static str],
    /// Supported keys that change the computation.
    pub(super) keys: &'static [&'static str],
}

impl Computes {
    /// The key that names the activation.
    pub(super) fn activation_key(&self) -> &'static str {
        if self.activations.contains(&"silu") { "hidden_act" } else { "hidden_activation" }
    }
}

const SILU: Computes = Computes { activations: &["silu", "swish"], keys: &[] };
const GEMMA3: Computes =
    Computes { activations: &["gelu_pytorch_tanh"], keys: &["query_pre_attn_scalar", "sliding_window_pattern"] };

/// All families.
const FAMILIES: [Family; 7] = [
    Family { model_type: "llama", class: "LlamaForCausalLM", parse: llama, computes: SILU },
    Family { model_type: "mistral", class: "MistralForCausalLM", parse: mistral, computes: SILU },
    Family { model_type: "qwen2", class: "Qwen2ForCausalLM", parse: qwen2, computes: SILU },
    Family { model_type: "olmo2", class: "Olmo2ForCausalLM", parse: olmo2, computes: SILU },
    Family { model_type: "gemma3_text", class: "Gemma3ForCausalLM", parse: gemma3, computes: GEMMA3 },
    Family { model_type: "qwen3", class: "Qwen3ForCausalLM", parse: qwen3, computes: SILU },
    Family { model_type: "baichuan", class: "BaichuanForCausalLM", parse: baichuan2, computes: SILU },
];

impl Family {
    /// The family of a configuration: by `model_type`, else by the class in `architectures`. Without either, LLaMA.
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

/// Defaults of transformers for absent keys.
#[derive(Default)]
struct Defaults {
    positions: usize,
    /// The number of query heads if `None`.
    kv_heads: Option<usize>,
    /// Hidden size / query heads if `None`.
    head_dim: Option<usize>,
}

/// Parses the keys common to all families: a model without biases, head norms and windows, with RoPE.
fn common(keys: Keys<'_>, defaults: &Defaults) -> Result<Architecture> {
    common_with(keys, defaults, Rope::parse(keys, rope::THETA)?)
}

/// [`common`] with the given RoPE.
fn common_with(keys: Keys<'_>, defaults: &Defaults, rope: Rope) -> Result<Architecture> {
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
        windows: Vec::new(),
        head,
    })
}

/// `attention_bias` of all attention layers, and `mlp_bias`. Families without the latter refuse it.
fn biases(keys: Keys<'_>) -> Result<Biases> {
    let [attention, mlp] = [keys.truth("attention_bias")?, keys.truth("mlp_bias")?].map(Option::unwrap_or_default);
    Ok(Biases { qkv: attention, output: attention, mlp })
}

/// LLaMA 1 to 3, SmolLM2, and every other model that transformers implements as `LlamaForCausalLM`.
fn llama(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["sliding_window", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults { positions: 2048, ..Defaults::default() })?;
    model.biases = biases(keys)?;
    Ok(model)
}

/// Every block has the window. If the key is absent, it is 4096 tokens; null means none.
fn mistral(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["attention_bias", "mlp_bias", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults { positions: 1 << 17, kv_heads: Some(8), head_dim: None })?;
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
    let mut model = common(keys, &Defaults { positions: 1 << 15, kv_heads: Some(32), head_dim: None })?;
    model.biases.qkv = true;
    model.windows = windows::of_qwen(keys, &model)?;
    Ok(model)
}

fn qwen3(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias"])?;
    let mut model = common(keys, &Defaults { positions: 1 << 15, kv_heads: Some(32), head_dim: Some(128) })?;
    model.biases = biases(keys)?;
    model.head_norm = HeadNorm::QueriesAndKeys;
    model.windows = windows::of_qwen(keys, &model)?;
    Ok(model)
}

/// OLMo 2: norms after attention and MLP only.
fn olmo2(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias", "sliding_window", "use_sliding_window", "layer_types"])?;
    let mut model = common(keys, &Defaults { positions: 2048, ..Defaults::default() })?;
    if keys.get("rms_norm_eps").is_none() {
        model.rms_norm_eps = 1e-5;
    }
    model.biases = biases(keys)?;
    (model.norms, model.head_norm) = (Norms::After, HeadNorm::WholeWidth);
    Ok(model)
}

/// Gemma 3, text only: norms before and after, norm weights minus one, GeGLU, and blocks with a window between blocks
/// without, with separate RoPE settings.
fn gemma3(keys: Keys<'_>) -> Result<Architecture> {
    refuse(keys, &["mlp_bias", "use_sliding_window", "use_bidirectional_attention"])?;
    let (everywhere, in_window) = rope::of_kinds(keys)?;
    let defaults = Defaults { positions: 1 << 17, kv_heads: Some(4), head_dim: Some(256) };
    let mut model = common_with(keys, &defaults, everywhere)?;
    if keys.get("tie_word_embeddings").is_none() {
        model.head = OutputHead::Tied;
    }
    model.biases = biases(keys)?;
    (model.norms, model.norm_weights) = (Norms::BeforeAndAfter, NormWeights::FactorsLessOne);
    (model.activation, model.embeddings) = (Activation::GeGlu, Embeddings::TimesSqrtHidden);
    (model.head_norm, model.window_rope) = (HeadNorm::QueriesAndKeys, Some(in_window));
    let scalar = keys.number("query_pre_attn_scalar")?.unwrap_or(256.0);
    check_f32("query_pre_attn_scalar", scalar, 1e9)?;
    if scalar != model.heads.dim as f64 {
        model.attention_scale = Some(scalar.powf(-0.5));
    }
    model.windows = windows::of_gemma(keys, &model)?;
    Ok(model)
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

/// Refuses keys that the family does not support, unless they have no effect.
fn refuse(keys: Keys<'_>, unknown: &[&str]) -> Result<()> {
    for key in unknown {
        if let Some(value) = keys.get(key).filter(|value| **value != Value::Bool(false)) {
            let value = quote(&value.to_string());
            return fail(format!("`{key}` is {value}; models of this `model_type` do not have it"));
        }
    }
    Ok(())
}
