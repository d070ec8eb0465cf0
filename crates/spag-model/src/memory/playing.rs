//! Memory of generation, computed from a model's configuration.

use std::fmt;

use crate::checkpoint::WeightDtype;
use crate::config::LlamaConfig;
use crate::generate::EngineConfig;
use crate::params::Layout;

/// Engine settings that determine its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationMemorySettings {
    /// Number format of parameters, activations and KV cache.
    pub dtype: WeightDtype,
    /// Capacity of the KV cache in tokens.
    pub cached_tokens: usize,
    /// Maximum running requests.
    pub running: usize,
    /// Maximum prompt tokens of a forward pass.
    pub step_tokens: usize,
}

/// Peak memory of an engine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationMemory {
    /// Parameters.
    pub parameters: u64,
    /// KV cache.
    pub pages: u64,
    /// Activations of one block.
    pub block: u64,
    /// Logits of one row per request, f32.
    pub logits: u64,
}

impl GenerationMemory {
    /// The memory for a model's configuration.
    pub fn new(config: &LlamaConfig, settings: &GenerationMemorySettings) -> Self {
        let element = settings.dtype.bytes() as u64;
        let (d, f, kv) = (config.hidden_size as u64, config.intermediate_size as u64, config.kv_size() as u64);
        let rows = (settings.step_tokens + settings.running) as u64;
        // Residual, norm and output; gate and up, and the SwiGLU output. Attention's tensors are smaller and freed by
        // then.
        let block = rows * (3 * d + 3 * f).max(4 * d + 2 * kv) * element;
        Self {
            parameters: Layout::new(config).len() as u64 * element,
            pages: Self::per_token(config, settings.dtype) * settings.cached_tokens as u64,
            block,
            logits: 4 * (settings.running * config.vocab_size) as u64,
        }
    }

    /// Bytes of the KV cache per token, over all layers.
    pub fn per_token(config: &LlamaConfig, dtype: WeightDtype) -> u64 {
        EngineConfig::bytes_per_token(config, dtype.bytes()) as u64
    }

    /// Total bytes.
    pub fn total(&self) -> u64 {
        self.parameters + self.pages + self.block + self.logits
    }
}

impl fmt::Display for GenerationMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("parameters", self.parameters),
            ("keys and values", self.pages),
            ("the block at work", self.block),
            ("logits", self.logits),
            ("in all", self.total()),
        ];
        super::table::write(f, &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 games of 2048 tokens: 512 KiB per token, 64 GiB of KV cache.
    #[test]
    fn memory_of_a_7b_model_matches_hand_calculation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        let config = LlamaConfig::from_file(path).unwrap();
        let settings = GenerationMemorySettings {
            dtype: WeightDtype::Bf16,
            cached_tokens: 64 * 2048,
            running: 64,
            step_tokens: 512,
        };
        let memory = GenerationMemory::new(&config, &settings);
        assert_eq!(GenerationMemory::per_token(&config, WeightDtype::Bf16), 512 << 10);
        assert_eq!((memory.parameters, memory.pages), (13_476_831_232, 64 << 30));
        assert_eq!(memory.block, 576 * (3 * 4096 + 3 * 11_008) * 2);
        assert_eq!(memory.logits, 64 * 32_000 * 4);
        assert!(memory.to_string().contains("keys and values    64.00 GiB"), "{memory}");
    }
}
