//! What users can set of an engine; the rest follows from the model and the free memory.

use super::config::{EngineConfig, MemoryBudget, PrefixSharing};
use crate::config::ModelConfig;

/// Settings of an engine. Absent ones follow from the model and the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineSettings {
    /// Maximum number of running requests; as many as fit into the memory if absent, at most 128.
    pub max_running: Option<usize>,
    /// Size of the KV cache in GiB; what the running requests need if absent, at most the memory.
    pub kv_cache_gib: Option<f64>,
    /// Tokens per page of the KV cache.
    pub page_size: Option<usize>,
    /// Maximum prompt tokens of a forward pass.
    pub max_step_tokens: Option<usize>,
    /// Whether requests share prefixes.
    pub prefix_sharing: PrefixSharing,
}

impl EngineSettings {
    /// The configuration for requests of at most `max_length` tokens, within `memory` unless a setting sets the size.
    pub fn config(&self, model: &ModelConfig, max_length: usize, memory: MemoryBudget) -> EngineConfig {
        let running = self.max_running.unwrap_or_else(|| EngineConfig::max_running_that_fit(model, max_length, memory));
        let mut config = EngineConfig::with_max_length(model, running, max_length, memory);
        if let Some(size) = self.page_size {
            let tokens = config.pages.saturating_mul(config.page_size);
            config.pages = (tokens / size.max(1)).max(max_length.div_ceil(size.max(1)));
            config.page_size = size;
        }
        if let Some(gib) = self.kv_cache_gib {
            let token = EngineConfig::bytes_per_token(model, memory.bytes_per_value);
            let page = config.page_size.saturating_mul(token);
            config.pages = ((gib * 1024f64.powi(3)) as usize / page.max(1)).max(1);
        }
        config.max_step_tokens = self.max_step_tokens.unwrap_or(config.max_step_tokens);
        config.prefix_sharing = self.prefix_sharing;
        config
    }
}
