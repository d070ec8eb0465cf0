//! What training a model on several ranks needs of each rank's device and of its host, from the configuration alone.
//!
//! Legend: n tokens of a micro-batch, d hidden size, f feed-forward size, kv key/value width, v vocabulary.

use std::fmt;

use super::passing::{Buffers, Passing, Whole};
use super::training::{OptimizerPlace, TrainingMemory, TrainingSettings};
use crate::checkpoint::WeightDtype;
use crate::config::LlamaConfig;
use crate::llama::Activations;
use crate::params::Layout;

/// A layer's part of each rank has a multiple of so many elements.
const PART: usize = 64;
/// Buffers of a layer's part, each way, between the device and the host.
const STAGING: u64 = 2;
/// Logits that exist at a time on a CPU, in elements, and how many are kept for the backward pass where all fit: as
/// `ops/log_prob.rs` has it.
const CPU_LOGITS: u64 = 1 << 22;
const CPU_KEPT_LOGITS: u64 = 1 << 24;

/// What of a model's state is split over the ranks; each stage includes the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharding {
    /// ZeRO 0: nothing.
    #[default]
    Nothing,
    /// ZeRO 1: the optimizer's state.
    OptimizerState,
    /// ZeRO 2: gradients too.
    Gradients,
    /// ZeRO 3: parameters too.
    Parameters,
}

impl Sharding {
    /// All, in order.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::OptimizerState, Self::Gradients, Self::Parameters];

    /// The number of the stage.
    pub fn stage(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::OptimizerState => 1,
            Self::Gradients => 2,
            Self::Parameters => 3,
        }
    }
}

/// Where a rank's part of the parameters lies between its uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterPlace {
    /// On the device.
    #[default]
    Device,
    /// In the host's memory; with [`Sharding::Parameters`] alone.
    Host,
}

/// What computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Computer {
    /// A GPU: activations in the format of the parameters, and memory of its own.
    #[default]
    Gpu,
    /// A CPU: activations in f32; what is "on the host" is beside everything else.
    Cpu,
}

/// How a training run is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Ranks, one a device.
    pub ranks: usize,
    /// What is split over them.
    pub sharding: Sharding,
    /// Where a rank's part of the parameters lies.
    pub parameters: ParameterPlace,
    /// What computes.
    pub computer: Computer,
}

impl Spread {
    /// One process on a GPU.
    pub fn single() -> Self {
        Self { ranks: 1, sharding: Sharding::Nothing, parameters: ParameterPlace::Device, computer: Computer::Gpu }
    }
}

/// What one rank of a training run needs at its peak, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankMemory {
    /// Parameters on the device: whole, or the rank's part.
    pub parameters: u64,
    /// Whole layers, gathered for use, at the peak.
    pub gathered: u64,
    /// Gradients, f32: whole, or the rank's part.
    pub gradients: u64,
    /// Gradients of whole layers on their way to their ranks, at the peak, f32.
    pub reducing: u64,
    /// AdamW's state on the device.
    pub optimizer: u64,
    /// What is kept of all blocks between their forward and their backward pass.
    pub kept: u64,
    /// What is at work at the peak: a block, or the output head.
    pub work: u64,
    /// For workspaces of libraries and gaps between tensors.
    pub allowance: u64,
    /// The rank's part of the parameters on the host.
    pub host_parameters: u64,
    /// AdamW's state on the host.
    pub host_optimizer: u64,
    /// Memory on the host that layers pass through.
    pub host_staging: u64,
}

impl RankMemory {
    /// The memory of a rank that trains a model of this configuration.
    pub fn new(config: &LlamaConfig, settings: &TrainingSettings, spread: &Spread) -> Self {
        let layout = Layout::new(config);
        let ranks = spread.ranks.max(1);
        let padded = |len: usize| match ranks {
            1 => len as u64,
            n => len.next_multiple_of(n * PART) as u64,
        };
        let whole: u64 = layout.layers.iter().map(|layer| padded(layer.len)).sum();
        let largest = layout.layers.iter().map(|layer| padded(layer.len)).max().unwrap_or(0);
        let part_of = |elements: u64, from: Sharding| match spread.sharding >= from {
            true => elements / ranks as u64,
            false => elements,
        };
        let element = settings.dtype.bytes() as u64;
        let on_gpu = spread.computer == Computer::Gpu;
        let parameters = part_of(whole, Sharding::Parameters) * element;
        let gathers = spread.sharding == Sharding::Parameters
            && (ranks > 1 || (spread.parameters == ParameterPlace::Host && on_gpu));
        let parameters_away =
            spread.parameters == ParameterPlace::Host && spread.sharding == Sharding::Parameters && on_gpu;
        let optimizer_away = settings.optimizer == OptimizerPlace::Host && on_gpu;
        // On the host there are master weights whatever the format of the parameters.
        let per_element = match (settings.dtype, optimizer_away) {
            (WeightDtype::F32, false) => 8,
            (WeightDtype::F32, true) | (WeightDtype::Bf16, _) => 12,
        };
        let optimizer = part_of(whole, Sharding::OptimizerState) * per_element;
        let layer = |index: usize| layout.layers.get(index).map_or(0, |layer| padded(layer.len));
        let buffers = Buffers {
            parameters: &|index| if gathers { layer(index) * element } else { 0 },
            gradients: &|index| if ranks > 1 { layer(index) * 4 } else { 0 },
        };
        let passing = Passing::new(&layout, config.tie_word_embeddings, &buffers);
        let activations = match spread.computer {
            Computer::Gpu => Work::on_gpu(config, settings),
            Computer::Cpu => Work::on_cpu(config, settings, &layout),
        };
        // The two do not come at the same time.
        let (blocks, head) = ((passing.blocks, activations.block), (passing.head, activations.head));
        let needs = |(passing, work): (Whole, u64)| passing.total() + work;
        let (Whole { gathered, reducing }, work) = if needs(head) > needs(blocks) { head } else { blocks };
        Self {
            parameters: if parameters_away { 0 } else { parameters },
            gathered,
            gradients: part_of(whole, Sharding::OptimizerState) * 4,
            reducing,
            optimizer: if optimizer_away { 0 } else { optimizer },
            kept: activations.kept,
            work,
            allowance: activations.allowance,
            host_parameters: if parameters_away { parameters } else { 0 },
            host_optimizer: if optimizer_away { optimizer } else { 0 },
            host_staging: match optimizer_away {
                true => STAGING * part_of(largest, Sharding::OptimizerState) * (4 + element),
                false => 0,
            },
        }
    }

    /// What the device needs in all.
    pub fn on_device(&self) -> u64 {
        self.rows().iter().map(|(_, bytes)| bytes).sum()
    }

    /// What this rank needs of its host in all.
    pub fn on_host(&self) -> u64 {
        self.host_rows().iter().map(|(_, bytes)| bytes).sum()
    }

    /// What the device's need is made of.
    pub fn rows(&self) -> [(&'static str, u64); 8] {
        [
            ("parameters", self.parameters),
            ("gathered layers", self.gathered),
            ("gradients (f32)", self.gradients),
            ("gradients being reduced", self.reducing),
            ("AdamW's state (f32)", self.optimizer),
            ("kept of every block", self.kept),
            ("block or head at work", self.work),
            ("allowance (libraries, gaps)", self.allowance),
        ]
    }

    /// What the need of the host is made of.
    pub fn host_rows(&self) -> [(&'static str, u64); 3] {
        [
            ("parameters", self.host_parameters),
            ("AdamW's state (f32)", self.host_optimizer),
            ("layers on their way", self.host_staging),
        ]
    }
}

impl fmt::Display for RankMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.rows().into_iter().filter(|(_, bytes)| *bytes > 0).chain([("in all", self.on_device())]);
        super::table::write(f, &device.collect::<Vec<_>>())
    }
}

/// Activations and what is made of them, in bytes.
struct Work {
    kept: u64,
    block: u64,
    head: u64,
    allowance: u64,
}

impl Work {
    fn on_gpu(config: &LlamaConfig, settings: &TrainingSettings) -> Self {
        let TrainingMemory { kept, block, head, allowance, .. } = TrainingMemory::new(config, settings);
        Self { kept, block, head, allowance }
    }

    /// On a CPU tensors go back to a pool of spare memory, by size, and stay there for the next micro-batch: what was
    /// needed at different times adds up unless it has the same size.
    fn on_cpu(config: &LlamaConfig, settings: &TrainingSettings, layout: &Layout) -> Self {
        let n = settings.tokens as u64;
        let (d, f, kv) = (config.hidden_size as u64, config.intermediate_size as u64, config.kv_size() as u64);
        let (v, blocks) = (config.vocab_size as u64, config.num_hidden_layers as u64);
        let lse = 4 * n * config.num_attention_heads as u64;
        let read_again = 4 * n * (3 * d + 2 * kv + 2 * f);
        let input = 4 * n * d;
        let (kept, tensors) = match settings.activations {
            // The last block's backward pass begins beside everything: two gradients, normed and activated values.
            Activations::Keep => (blocks * (input + read_again + lse), 4 * n * (4 * d + f)),
            // Attention's backward pass: q, attended, the gradients of both and of the middle; k, v and theirs; from
            // the MLP's, three of its width, whose memory is too large for the others.
            Activations::Recompute if kv == d => (blocks * input, lse + 4 * n * (9 * d + 3 * f)),
            Activations::Recompute => (blocks * input, lse + 4 * n * (6 * d + 4 * kv + 3 * f)),
        };
        let (logits, pieces) = match n * v <= CPU_KEPT_LOGITS {
            true => (n * v, 0),
            // The gradients of the chunks' rows are put together at the end.
            false => (n.min((CPU_LOGITS / v.max(1)).clamp(16, 8192)) * v, input),
        };
        // Layers in bf16 are widened when they are used.
        let widened = |layer: Option<&crate::params::LayerLayout>| match settings.dtype {
            WeightDtype::F32 => 0,
            WeightDtype::Bf16 => 4 * layer.map_or(0, |layer| layer.len as u64),
        };
        let head = match config.tie_word_embeddings {
            true => layout.layers.first(),
            false => layout.layers.last(),
        };
        Self {
            kept,
            block: tensors + 4 * logits + widened(layout.layers.get(1)),
            head: tensors + 4 * logits + pieces + widened(head),
            allowance: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seven_billion() -> LlamaConfig {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        LlamaConfig::from_file(path).unwrap()
    }

    fn settings(optimizer: OptimizerPlace) -> TrainingSettings {
        TrainingSettings { dtype: WeightDtype::Bf16, tokens: 2 * 2048, activations: Activations::Recompute, optimizer }
    }

    fn spread(ranks: usize, sharding: Sharding, parameters: ParameterPlace) -> Spread {
        Spread { ranks, sharding, parameters, computer: Computer::Gpu }
    }

    #[test]
    fn one_rank_is_what_one_process_needs() {
        for optimizer in [OptimizerPlace::Device, OptimizerPlace::Host] {
            let one = RankMemory::new(&seven_billion(), &settings(optimizer), &Spread::single());
            assert_eq!(one.on_device(), TrainingMemory::new(&seven_billion(), &settings(optimizer)).on_device());
        }
    }

    /// 6 738 415 616 parameters on 8 ranks, both offloads; every layer is a multiple of 512 elements.
    #[test]
    fn seven_billion_parameters_on_eight_ranks_by_hand() {
        let memory = RankMemory::new(
            &seven_billion(),
            &settings(OptimizerPlace::Host),
            &spread(8, Sharding::Parameters, ParameterPlace::Host),
        );
        let part = 6_738_415_616 / 8;
        let block = 4 * 4096 * 4096 + 3 * 4096 * 11_008 + 2 * 4096;
        assert_eq!((memory.parameters, memory.optimizer), (0, 0));
        assert_eq!((memory.gradients, memory.host_parameters, memory.host_optimizer), (4 * part, 2 * part, 12 * part));
        assert_eq!((memory.gathered, memory.reducing), (3 * 2 * block, 2 * 4 * block));
        assert_eq!(memory.host_staging, 2 * block / 8 * 6);
        // The head has more activations than a block, and fewer parameters than three.
        assert_eq!(memory.work, 505_413_632 + 524_288);
        assert!(memory.to_string().contains("in all"));
    }

    #[test]
    fn more_is_split_stage_by_stage() {
        let config = seven_billion();
        for ranks in [2, 8, 32] {
            let of = |sharding| {
                RankMemory::new(
                    &config,
                    &settings(OptimizerPlace::Device),
                    &spread(ranks, sharding, ParameterPlace::Device),
                )
                .on_device()
            };
            let needs = Sharding::ALL.map(of);
            assert!(needs[0] > needs[1] && needs[1] == needs[2] && needs[2] > needs[3], "{ranks}: {needs:?}");
        }
    }
}
