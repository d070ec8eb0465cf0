//! How a request is completed, and what an engine may use for it.

use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::generate::budget::MemoryBudget;
use crate::generate::sample::Sampling;

/// How one request is completed.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationConfig {
    /// A completion ends after this many tokens at the latest.
    pub max_new_tokens: usize,
    /// Neither EOS nor a stop token is chosen before this many tokens are out.
    pub min_new_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Tokens that end a completion beside EOS.
    pub stop_tokens: Vec<u32>,
    /// Texts that end a completion where they first occur; the completion's text ends before them.
    pub stop_strings: Vec<String>,
}

impl Default for GenerationConfig {
    /// Up to 256 greedy tokens, as the paper's testing does.
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
            min_new_tokens: 0,
            sampling: Sampling::Greedy,
            stop_tokens: Vec::new(),
            stop_strings: Vec::new(),
        }
    }
}

impl GenerationConfig {
    /// Rejects settings that nothing can be generated with.
    ///
    /// # Errors
    /// [`Error::Generation`] naming the setting.
    pub fn check(&self) -> Result<()> {
        self.sampling.check()?;
        if self.max_new_tokens == 0 {
            return Err(Error::Generation("max_new_tokens must be at least 1".into()));
        }
        match self.stop_strings.iter().any(String::is_empty) {
            true => Err(Error::Generation("a stop string is empty; it would end every completion at once".into())),
            false => Ok(()),
        }
    }
}

/// Whether requests use the keys and values that others have computed for the same beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixSharing {
    /// Pages with the same tokens before them and in them are computed once and shared.
    #[default]
    On,
    /// Every request computes all of its own.
    Off,
}

/// What an engine may use: memory in pages, places in the batch, tokens of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Tokens of a prompt and its completion together; longer prompts lose tokens on the left, as in the reference.
    pub max_length: usize,
    /// Tokens of a page of keys and values.
    pub page_size: usize,
    /// Pages; allocated once, touched as they are used.
    pub pages: usize,
    /// Requests in the running batch at most.
    pub max_running: usize,
    /// Tokens that a forward pass computes at most, decoding requests aside: long prompts go in chunks.
    pub max_step_tokens: usize,
    /// Whether equal beginnings are computed once.
    pub prefix_sharing: PrefixSharing,
}

/// Tokens of a page unless told otherwise: a full tile of the CPU's products.
const PAGE_SIZE: usize = 64;
/// Prompt tokens of a step unless told otherwise: enough to use the processor well, few enough that decoding requests
/// do not wait for long.
const STEP_TOKENS: usize = 512;
/// Requests at a time beyond which a processor gains nothing.
const MOST_RUNNING: usize = 128;

impl EngineConfig {
    /// Bytes of keys and values of one token, in all layers, whose numbers take `bytes_per_value` each.
    pub fn bytes_per_token(model: &LlamaConfig, bytes_per_value: usize) -> usize {
        2 * model.num_hidden_layers * model.kv_size() * bytes_per_value
    }

    /// For up to `max_running` requests of the model's full length, or as many as `memory` holds.
    pub fn new(model: &LlamaConfig, max_running: usize, memory: MemoryBudget) -> Self {
        Self::with_max_length(model, max_running, model.max_position_embeddings, memory)
    }

    /// As [`EngineConfig::new`] for requests of `max_length` tokens. Memory for one of them is taken in any case.
    pub fn with_max_length(model: &LlamaConfig, max_running: usize, max_length: usize, memory: MemoryBudget) -> Self {
        let each = max_length.div_ceil(PAGE_SIZE).max(1);
        let page_bytes = PAGE_SIZE * Self::bytes_per_token(model, memory.bytes_per_value);
        let fit = memory.bytes / page_bytes.max(1);
        // One request more than run, for beginnings that are kept.
        let pages = max_running.saturating_add(1).saturating_mul(each).min(fit).max(each);
        Self {
            max_length,
            page_size: PAGE_SIZE,
            pages,
            max_running: max_running.max(1),
            max_step_tokens: STEP_TOKENS,
            prefix_sharing: PrefixSharing::On,
        }
    }

    /// How many requests of `max_length` tokens `memory` has room for at a time, 1 to 128: a processor gains nothing from
    /// more.
    pub fn max_running_that_fit(model: &LlamaConfig, max_length: usize, memory: MemoryBudget) -> usize {
        let each = max_length.next_multiple_of(PAGE_SIZE) * Self::bytes_per_token(model, memory.bytes_per_value);
        (memory.bytes / each.max(1)).clamp(1, MOST_RUNNING)
    }

    /// Rejects what no engine can work with.
    pub(super) fn check(&self, model: &LlamaConfig) -> Result<()> {
        let wrong = |why: String| Err(Error::Generation(why));
        let limit = model.max_position_embeddings;
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
        match u32::try_from(self.pages) {
            Ok(_) => Ok(()),
            Err(_) => wrong(format!("{} pages are too many; take larger ones", self.pages)),
        }
    }
}
