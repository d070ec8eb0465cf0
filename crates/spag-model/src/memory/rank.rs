//! What training a model on several ranks needs of each rank's device and of its host, from the configuration alone.

use std::fmt;

use super::passing::{Buffers, Passing, Whole};
use super::spread::{Computer, ParameterPlace, Sharding, Spread};
use super::training::{OptimizerPlace, TrainingSettings};
use super::work::Work;
use crate::checkpoint::WeightDtype;
use crate::config::LlamaConfig;
use crate::params::Layout;

/// A layer's part of each rank has a multiple of so many elements.
const PART: usize = 64;
/// Buffers of a layer's part, each way, between the device and the host.
const STAGING: u64 = 2;

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
        // Parameters on the host are updated there.
        let optimizer_away = (settings.optimizer == OptimizerPlace::Host && on_gpu) || parameters_away;
        // On the host there are master weights whatever the format of the parameters, unless these are there themselves.
        let per_element = match (settings.dtype, optimizer_away && !parameters_away) {
            (WeightDtype::F32, false) => 8,
            (WeightDtype::F32, true) | (WeightDtype::Bf16, _) => 12,
        };
        // Gradients come down, and new parameters go up.
        let staged = if parameters_away { 4 } else { 4 + element };
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
                true => STAGING * part_of(largest, Sharding::OptimizerState) * staged,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llama::Activations;

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

    /// 6 738 415 616 parameters; two sequences of 2 048 tokens.
    #[test]
    fn seven_billion_parameters_by_hand() {
        let memory = RankMemory::new(&seven_billion(), &settings(OptimizerPlace::Device), &Spread::single());
        assert_eq!((memory.parameters, memory.gradients), (13_476_831_232, 26_953_662_464));
        assert_eq!((memory.optimizer, memory.gathered, memory.reducing), (80_860_987_392, 0, 0));
        // The head needs more than a block.
        assert_eq!(memory.work, 920_649_728);
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
            "block or head at work 0.86 GiB",
            "in all 115.32 GiB",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_is_on_the_host_is_not_on_the_device() {
        for (dtype, there, away) in [(WeightDtype::Bf16, 12, 12), (WeightDtype::F32, 8, 12)] {
            let of = |place| {
                let settings = TrainingSettings { dtype, ..settings(place) };
                RankMemory::new(&seven_billion(), &settings, &Spread::single())
            };
            let (device, host) = (of(OptimizerPlace::Device), of(OptimizerPlace::Host));
            assert_eq!(device.on_device() - host.on_device(), there * 6_738_415_616);
            // There are master weights on the host whatever the parameters are.
            assert_eq!(host.on_host() - host.host_staging, away * 6_738_415_616);
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
        // Gradients alone: the parameters are there.
        assert_eq!(memory.host_staging, 2 * block / 8 * 4);
        // The head has more activations than a block, and fewer parameters than three.
        assert_eq!(memory.work, 505_413_632 + 524_288);
        assert!(memory.to_string().contains("in all"));
        // Where the parameters lie the optimizer does too, whatever is asked, and in f32 no copy of them.
        for (dtype, bytes) in [(WeightDtype::Bf16, 12), (WeightDtype::F32, 8)] {
            let settings = TrainingSettings { dtype, ..settings(OptimizerPlace::Device) };
            let spread = spread(8, Sharding::Parameters, ParameterPlace::Host);
            let memory = RankMemory::new(&seven_billion(), &settings, &spread);
            assert_eq!((memory.optimizer, memory.host_optimizer), (0, bytes * part));
        }
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
