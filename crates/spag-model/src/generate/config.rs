//! Engine configuration.

use candle_core::Device;

use super::memory::{GenerationMemory, GenerationMemorySettings, PromptLogProbs};
use crate::config::ModelConfig;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::packed_weights::{Matrices, packing_bytes};
use spag_ops::kernels::{self, SumOrder};
use spag_ops::{available_memory, free_memory};

/// Whether requests reuse the KV cache of requests with the same prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixSharing {
    /// Full pages with the same prefix are computed once and shared.
    #[default]
    On,
    /// Every request computes its whole prompt.
    Off,
}

/// The kind of device of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// A CPU, with activations in f32.
    Cpu,
    /// A GPU, with activations in the number format of the weights.
    Gpu,
}

impl Processor {
    /// The kind of a device.
    pub fn of(device: &Device) -> Self {
        if device.is_cpu() { Self::Cpu } else { Self::Gpu }
    }
}

/// How an engine on a CPU uses the weights of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weights {
    /// Packs a copy.
    Copied,
    /// Takes them: packs each layer in place, or packs or quantises a copy and frees the layer.
    Taken,
}

/// Limits of an engine: KV cache, running requests and tokens per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Maximum tokens of a prompt and its completion. Prompts are truncated on the left to fit with the longest
    /// possible completion.
    pub max_length: usize,
    /// Tokens per page of the KV cache.
    pub page_size: usize,
    /// Number of pages. Allocated at start; the operating system maps them on first use.
    pub pages: usize,
    /// Maximum number of running requests.
    pub max_running: usize,
    /// Maximum tokens of a forward pass. Longer prompts are split (chunked prefill). Decoding tokens always fit.
    pub max_step_tokens: usize,
    /// Whether requests share prefixes.
    pub prefix_sharing: PrefixSharing,
    /// Summation order of GPU products and attention.
    pub sum_order: SumOrder,
}

/// Default tokens per page: a full tile of the CPU's matrix product.
const PAGE_SIZE: usize = 64;
/// Number of running requests beyond which throughput does not increase.
const MAX_RUNNING: usize = 128;

impl EngineConfig {
    /// Default prompt tokens per step: enough for full throughput, without long delays of decoding requests.
    pub const DEFAULT_STEP_TOKENS: usize = 512;

    /// Bytes of the KV cache per token, over all layers.
    pub fn bytes_per_token(model: &ModelConfig, bytes_per_value: usize) -> usize {
        GenerationMemory::cached_values(model) * bytes_per_value
    }

    /// Sized for up to `max_running` requests of the model's full length, or as many as fit into `memory`.
    pub fn new(model: &ModelConfig, max_running: usize, memory: MemoryBudget) -> Self {
        Self::with_max_length(model, max_running, model.architecture.max_position_embeddings, memory)
    }

    /// [`EngineConfig::new`] for requests of `max_length` tokens. Fits at least one such request.
    pub fn with_max_length(model: &ModelConfig, max_running: usize, max_length: usize, memory: MemoryBudget) -> Self {
        let each = max_length.div_ceil(PAGE_SIZE).max(1);
        let page_bytes = PAGE_SIZE.saturating_mul(Self::bytes_per_token(model, memory.bytes_per_value));
        let fit = memory.bytes / page_bytes.max(1);
        // One extra request, for cached prefixes.
        let pages = max_running.saturating_add(1).saturating_mul(each).min(fit).max(each);
        Self {
            max_length,
            page_size: PAGE_SIZE,
            pages,
            max_running: max_running.max(1),
            max_step_tokens: Self::DEFAULT_STEP_TOKENS,
            prefix_sharing: PrefixSharing::On,
            sum_order: SumOrder::Any,
        }
    }

    /// Number of requests of `max_length` tokens that fit into `memory`, from 1 to 128.
    pub fn max_running_that_fit(model: &ModelConfig, max_length: usize, memory: MemoryBudget) -> usize {
        let tokens = max_length.div_ceil(PAGE_SIZE).saturating_mul(PAGE_SIZE);
        let each = tokens.saturating_mul(Self::bytes_per_token(model, memory.bytes_per_value));
        (memory.bytes / each.max(1)).clamp(1, MAX_RUNNING)
    }

    /// Validates the settings.
    pub(super) fn check(&self, model: &ModelConfig) -> Result<()> {
        let wrong = |why: String| Err(Error::Generation(why));
        let limit = model.architecture.max_position_embeddings;
        if self.max_running == 0 || self.pages == 0 || self.page_size == 0 || self.max_step_tokens == 0 {
            return wrong(
                "an engine needs at least one request, one page, one token a page and one token a step".into(),
            );
        }
        if self.max_length > limit {
            return wrong(format!(
                "max_length {} exceeds the model's max_position_embeddings {limit}; lower it",
                self.max_length
            ));
        }
        if u32::try_from(self.pages).is_err() {
            return wrong(format!("{} pages are too many; use larger pages", self.pages));
        }
        Ok(())
    }

    /// The memory use of an engine with these limits, for weights in `dtype`.
    pub fn memory(&self, model: &ModelConfig, dtype: WeightDtype, processor: Processor) -> GenerationMemory {
        // A running request has at least one page, and no more tokens than the longest one.
        let running = self.max_running.min(self.pages);
        let settings = GenerationMemorySettings {
            dtype,
            activations: match processor {
                Processor::Cpu => WeightDtype::F32,
                Processor::Gpu => dtype,
            },
            cached_tokens: self.pages.saturating_mul(self.page_size),
            running,
            step_tokens: self.max_step_tokens.min(running.saturating_mul(self.max_length)),
            // Any request may enable them.
            prompt_log_probs: PromptLogProbs::Computed,
        };
        GenerationMemory::new(model, &settings)
    }

    /// Checks that the KV cache and the largest pass fit into the free memory, before anything is allocated.
    pub(super) fn check_memory(&self, model: &Model, weights: Weights) -> Result<()> {
        let (config, parameters) = (model.config(), model.parameters());
        let device = parameters.device();
        let GenerationMemory { pages, block, logits, .. } =
            self.memory(config, parameters.dtype(), Processor::of(device));
        // On a CPU, weights are quantised or packed; kernels use unquantised ones directly.
        let (matrices, dtype) = (Matrices::of(&config.architecture), parameters.dtype());
        let weights = match (weights, model.block_format()) {
            _ if model.packed().is_some() => 0,
            (Weights::Copied, Some(format)) => matrices.bytes(format, dtype),
            (Weights::Taken, Some(format)) => matrices.packing_bytes(format, dtype),
            _ if !device.is_cpu() => 0,
            (Weights::Copied, None) => parameters.layout().bytes(dtype),
            (Weights::Taken, None) => packing_bytes(&config.architecture, parameters.layout(), dtype),
        };
        let needed = [block, logits, weights, dequantised_bytes(model)?].into_iter().fold(pages, u64::saturating_add);
        let what = || {
            let (pages, size) = (self.pages, self.page_size);
            format!("generation, with a KV cache of {pages} pages of {size} tokens,")
        };
        let advice =
            "lower --kv_cache_gib, --max_length, --per_device_eval_batch_size, --page_size or --max_step_tokens";
        Ok(spag_ops::require_room(needed, device, what, advice)?)
    }
}

/// Bytes of the buffer into which kernels dequantise a matrix for products of many rows; 0 for unquantised models.
fn dequantised_bytes(model: &Model) -> Result<u64> {
    let parameters = model.parameters();
    Ok(match (model.block_format(), kernels::of(parameters.device())?) {
        (Some(format), Some(_)) => {
            Matrices::of(&model.config().architecture).dequantised_bytes(format, parameters.dtype())
        }
        _ => 0,
    })
}

/// Memory budget of an engine's KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Total size.
    pub bytes: usize,
    /// Bytes per element: the size of a weight.
    pub bytes_per_value: usize,
}

impl MemoryBudget {
    /// What the KV cache gets of the host's free memory, as a divisor, and likewise activations and the copies of a checkpoint; the rest
    /// is left to other processes.
    pub const HOST_SHARE: u64 = 2;

    /// Half of the host's free memory, for an engine on the CPU with weights in f32.
    pub fn host() -> Self {
        Self {
            bytes: usize::try_from(available_memory() / Self::HOST_SHARE).unwrap_or(usize::MAX),
            bytes_per_value: size_of::<f32>(),
        }
    }

    /// Memory on the device of a loaded model: half of the free memory on a CPU, nine tenths on a GPU, where only the
    /// activations of a pass, and a dequantised matrix if the model is quantised, remain to be allocated.
    pub fn for_model(model: &Model) -> Result<Self> {
        let device = model.parameters().device();
        let bytes = match device.is_cpu() {
            true => available_memory() / Self::HOST_SHARE,
            false => free_memory(device)?.free.saturating_sub(dequantised_bytes(model)?) / 10 * 9,
        };
        let bytes_per_value = model.parameters().dtype().bytes();
        Ok(Self { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), bytes_per_value })
    }

    /// An equal share for each of `engines`.
    pub fn split(self, engines: usize) -> Self {
        Self { bytes: self.bytes / engines.max(1), ..self }
    }
}
