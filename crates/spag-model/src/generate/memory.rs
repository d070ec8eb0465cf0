//! Memory requirements of generation, derived from the model's configuration.

use crate::config::ModelConfig;
use crate::dtype::WeightDtype;
use crate::params::Layout;
use spag_ops::sample::scored_rows;

/// Settings that determine the memory of an engine, in addition to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationMemorySettings {
    /// Number format of parameters, keys and values.
    pub dtype: WeightDtype,
    /// Number format of activations: f32 on a CPU, that of the parameters on a GPU.
    pub activations: WeightDtype,
    /// Capacity of the KV cache in tokens.
    pub cached_tokens: usize,
    /// Running requests.
    pub running: usize,
    /// Maximum prompt tokens per forward pass.
    pub step_tokens: usize,
    /// Whether log-probabilities of prompts may be requested.
    pub prompt_log_probs: PromptLogProbs,
}

/// Whether an engine computes log-probabilities of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptLogProbs {
    /// Possibly, in a server.
    Computed,
    /// Never, in games.
    None,
}

/// The peak memory of an engine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationMemory {
    /// The parameters.
    pub parameters: u64,
    /// The KV cache.
    pub pages: u64,
    /// Temporary memory of a block.
    pub block: u64,
    /// Logits, f32: one row per request, or a chunk of a prompt that is scored.
    pub logits: u64,
}

impl GenerationMemory {
    /// The memory of generation with this configuration.
    pub fn new(config: &ModelConfig, settings: &GenerationMemorySettings) -> Self {
        let element = settings.activations.bytes() as u64;
        let model = &config.architecture;
        let [d, f, q, kv] =
            [model.hidden_size, model.intermediate_size, model.query_size(), model.kv_size()].map(|size| size as u64);
        let rows = settings.step_tokens.saturating_add(settings.running) as u64;
        // Middle, its norm and the output; fused gate and up, and the activated values. Attention's tensors are
        // smaller and already freed.
        let row = (3 * d + 3 * f).max(2 * d + 2 * q + 2 * kv) * element;
        // A chunk is freed before the requests' rows are computed.
        let scored = match settings.prompt_log_probs {
            PromptLogProbs::Computed => scored_rows(model.vocab_size).min(settings.step_tokens),
            PromptLogProbs::None => 0,
        };
        let logit_rows = settings.running.max(scored) as u64;
        Self {
            parameters: Layout::new(model).bytes(settings.dtype),
            pages: Self::per_token(config, settings.dtype).saturating_mul(settings.cached_tokens as u64),
            block: rows.saturating_mul(row),
            logits: logit_rows.saturating_mul(4 * model.vocab_size as u64),
        }
    }

    /// Bytes of the KV cache per token, over all layers.
    pub fn per_token(config: &ModelConfig, dtype: WeightDtype) -> u64 {
        (Self::cached_values(config) * dtype.bytes()) as u64
    }

    /// Elements of the keys and values of a token, over all layers.
    pub(super) fn cached_values(config: &ModelConfig) -> usize {
        2 * config.architecture.num_hidden_layers * config.architecture.kv_size()
    }

    /// Total bytes.
    pub fn total(&self) -> u64 {
        [self.pages, self.block, self.logits].into_iter().fold(self.parameters, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 games of 2 048 tokens: 512 KiB per token, 64 GiB of KV cache.
    #[test]
    fn seven_billion_parameters_by_hand() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        let config = ModelConfig::from_file(path).unwrap();
        let settings = GenerationMemorySettings {
            dtype: WeightDtype::Bf16,
            activations: WeightDtype::Bf16,
            cached_tokens: 64 * 2048,
            running: 64,
            step_tokens: 512,
            prompt_log_probs: PromptLogProbs::None,
        };
        let memory = GenerationMemory::new(&config, &settings);
        assert_eq!(GenerationMemory::per_token(&config, WeightDtype::Bf16), 512 << 10);
        assert_eq!((memory.parameters, memory.pages), (13_476_831_232, 64 << 30));
        assert_eq!(memory.block, 576 * (3 * 4096 + 3 * 11_008) * 2);
        assert_eq!(memory.logits, 64 * 32_000 * 4);
        // 2²² logits at a time.
        let scoring = GenerationMemorySettings { prompt_log_probs: PromptLogProbs::Computed, ..settings };
        assert_eq!(GenerationMemory::new(&config, &scoring), GenerationMemory { logits: 131 * 32_000 * 4, ..memory });
    }
}
