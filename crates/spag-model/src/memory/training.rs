//! What training a model needs on its device, from its configuration alone.
//!
//! Legend: N tokens of a micro-batch, D hidden size, F feed-forward size, KV key/value width, V vocabulary, L blocks.

use std::fmt;

use crate::checkpoint::WeightDtype;
use crate::config::LlamaConfig;
use crate::llama::Activations;
use crate::params::Layout;

/// Logits exist in chunks of at most so many bytes in f32.
const LOGITS_CHUNK: u64 = 512 << 20;
/// For cuBLAS's workspace and for gaps between tensors: an allowance, not a sum.
const ALLOWANCE: u64 = 512 << 20;

/// Where the optimizer's state lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizerPlace {
    /// With the model.
    #[default]
    Device,
    /// In the host's memory.
    Host,
}

/// What the memory of a training run depends on beside the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingSettings {
    /// Number format of parameters and activations.
    pub dtype: WeightDtype,
    /// Tokens of a micro-batch, at most.
    pub tokens: usize,
    /// What is kept of each block.
    pub activations: Activations,
    /// Where the optimizer's state lies.
    pub optimizer: OptimizerPlace,
}

/// What a training step needs at its peak, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingMemory {
    /// The parameters.
    pub parameters: u64,
    /// Their gradients, f32.
    pub gradients: u64,
    /// AdamW's moments in f32 and, where the parameters are bf16, the f32 master weights.
    pub optimizer: u64,
    /// Where these lie.
    pub optimizer_place: OptimizerPlace,
    /// What is kept of all blocks between their forward and their backward pass.
    pub kept: u64,
    /// What the one block at work needs beside that.
    pub block: u64,
    /// What the output head needs: a chunk of logits, its gradient, and the rows that predict. Not at the same time as
    /// [`TrainingMemory::block`].
    pub head: u64,
    /// For cuBLAS's workspace and for gaps between tensors: an allowance.
    pub allowance: u64,
}

impl TrainingMemory {
    /// The memory of training a model of this configuration.
    pub fn new(config: &LlamaConfig, settings: &TrainingSettings) -> Self {
        let parameters = Layout::new(config).len() as u64;
        let (element, n) = (settings.dtype.bytes() as u64, settings.tokens as u64);
        let (d, f, kv) = (config.hidden_size as u64, config.intermediate_size as u64, config.kv_size() as u64);
        let (vocabulary, blocks) = (config.vocab_size as u64, config.num_hidden_layers as u64);
        // One f32 a token and query head: the logarithm of attention's sum.
        let lse = 4 * n * config.num_attention_heads as u64;
        // Beside x, what backward reads: q, attended and middle; k and v; gate and up.
        let read_again = n * (3 * d + 2 * kv + 2 * f) * element;
        let input = n * d * element;
        let (kept, block) = match settings.activations {
            Activations::Keep => {
                // Largest at the last block's MLP: the gradient of its output, and the activated values.
                (blocks * (input + read_again + lse), n * (d + f) * element)
            }
            Activations::Recompute => {
                let stages = [
                    // The forward pass again, at its end: what backward reads, the activated values, the output; and the
                    // gradient of the output, which waits.
                    read_again + n * (2 * d + f) * element,
                    // The MLP's backward pass: normed values and two gradients where the activated values were.
                    read_again + n * 3 * d * element,
                    // Attention's: q, attended and three gradients of their width; k, v and their gradients.
                    n * (5 * d + 4 * kv) * element,
                ];
                (blocks * input, lse + stages.into_iter().max().unwrap_or(0))
            }
        };
        let logits = (4 * n * vocabulary).min(LOGITS_CHUNK);
        let logit_gradients = match settings.dtype {
            WeightDtype::F32 => 0,
            WeightDtype::Bf16 => logits / 2,
        };
        Self {
            parameters: parameters * element,
            gradients: parameters * 4,
            optimizer: match settings.dtype {
                WeightDtype::F32 => parameters * 8,
                WeightDtype::Bf16 => parameters * 12,
            },
            optimizer_place: settings.optimizer,
            kept,
            block,
            // Rows, their norm, and a gradient of each.
            head: logits + logit_gradients + 4 * input,
            allowance: ALLOWANCE,
        }
    }

    /// What the device needs in all.
    pub fn on_device(&self) -> u64 {
        let optimizer = match self.optimizer_place {
            OptimizerPlace::Device => self.optimizer,
            OptimizerPlace::Host => 0,
        };
        self.parameters + self.gradients + optimizer + self.kept + self.block.max(self.head) + self.allowance
    }

    /// What the host needs in all.
    pub fn on_host(&self) -> u64 {
        match self.optimizer_place {
            OptimizerPlace::Device => 0,
            OptimizerPlace::Host => self.optimizer,
        }
    }
}

impl fmt::Display for TrainingMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![("parameters", self.parameters), ("gradients (f32)", self.gradients)];
        if self.optimizer_place == OptimizerPlace::Device {
            rows.push(("AdamW's state (f32)", self.optimizer));
        }
        rows.push(("kept of every block", self.kept));
        match self.block > self.head {
            true => rows.push(("the block at work", self.block)),
            false => rows.push(("logits and the head's rows", self.head)),
        }
        rows.push(("allowance (cuBLAS, gaps)", self.allowance));
        rows.push(("in all on the device", self.on_device()));
        if self.optimizer_place == OptimizerPlace::Host {
            rows.push(("AdamW's state on the host", self.optimizer));
        }
        super::table::write(f, &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seven_billion() -> LlamaConfig {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        LlamaConfig::from_file(path).unwrap()
    }

    fn settings() -> TrainingSettings {
        TrainingSettings {
            dtype: WeightDtype::Bf16,
            tokens: 2 * 2048,
            activations: Activations::Recompute,
            optimizer: OptimizerPlace::Device,
        }
    }

    /// 6 738 415 616 parameters; two sequences of 2 048 tokens.
    #[test]
    fn seven_billion_parameters_by_hand() {
        let memory = TrainingMemory::new(&seven_billion(), &settings());
        assert_eq!(memory.parameters, 13_476_831_232);
        assert_eq!(memory.gradients, 26_953_662_464);
        assert_eq!(memory.optimizer, 80_860_987_392);
        // 32 blocks × 4096 tokens × 4096 × 2 bytes.
        assert_eq!(memory.kept, 1 << 30);
        // 4096 × (5·4096 + 2·4096 + 3·11008) × 2 bytes, and 4096 × 32 sums of 4 bytes.
        assert_eq!(memory.block, 505_413_632 + 524_288);
        // 4096 × 32000 × (4 + 2) bytes, and four times 4096 × 4096 × 2.
        assert_eq!(memory.head, 786_432_000 + 134_217_728);
        let sum = 13_476_831_232 + 26_953_662_464 + 80_860_987_392 + (1 << 30) + 920_649_728 + (512 << 20);
        assert_eq!((memory.on_device(), memory.on_host()), (sum, 0));
        let text = memory.to_string();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in [
            "parameters 12.55 GiB",
            "gradients (f32) 25.10 GiB",
            "AdamW's state (f32) 75.31 GiB",
            "kept of every block 1.00 GiB",
            "logits and the head's rows 0.86 GiB",
            "in all on the device 115.32 GiB",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_is_on_the_host_is_not_on_the_device() {
        let there = TrainingMemory::new(&seven_billion(), &settings());
        let away =
            TrainingMemory::new(&seven_billion(), &TrainingSettings { optimizer: OptimizerPlace::Host, ..settings() });
        assert_eq!(there.on_device() - away.on_device(), 80_860_987_392);
        assert_eq!(away.on_host(), 80_860_987_392);
        assert!(away.to_string().contains("AdamW's state on the host"));
    }

    #[test]
    fn keeping_everything_costs_every_block() {
        let kept = TrainingSettings { activations: Activations::Keep, ..settings() };
        let memory = TrainingMemory::new(&seven_billion(), &kept);
        // 32 × (4096 × (4·4096 + 2·4096 + 2·11008) × 2 bytes + 4096 × 32 × 4).
        assert_eq!(memory.kept, 32 * (4096 * 46_592 * 2 + 524_288));
        assert_eq!(memory.block, 4096 * (4096 + 11_008) * 2);
    }

    #[test]
    fn f32_needs_no_master_weights_and_no_second_gradient_of_logits() {
        let single = TrainingSettings { dtype: WeightDtype::F32, tokens: 100_000, ..settings() };
        let memory = TrainingMemory::new(&seven_billion(), &single);
        assert_eq!((memory.parameters, memory.optimizer), (4 * 6_738_415_616, 8 * 6_738_415_616));
        // More logits than a chunk holds.
        assert_eq!(memory.head, (512 << 20) + 4 * 100_000 * 4096 * 4);
    }
}
