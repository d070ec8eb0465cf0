//! The memory that each rank of a training run needs on its device and on its host.

use std::fmt;

use spag_io::format_gib;
use spag_model::ModelConfig;
use spag_model::dtype::WeightDtype;
use spag_model::model::Arithmetic;
use spag_model::packed_weights::QuantisedLayers;
use spag_model::params::Layout;

use super::activations::StepMemory;
use super::whole_layers::{LayerBytes, Whole, WholeLayers};
use crate::config::{Placement, ShardingPlan, TrainConfig, ZeroStage};
use crate::optimizer::{self, Covers, STAGING_BUFFERS, StateBuffer};
use crate::zero::Partition;

/// The peak memory of one rank of a training run, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankMemory {
    /// Parameters on the device: whole, or the rank's shards.
    parameters: u64,
    /// Those of them that an adapter is trained over.
    frozen: u64,
    /// Gathered and dequantised layers at the peak.
    gathered: u64,
    /// Gradients, f32: whole, or the rank's shards.
    gradients: u64,
    /// Gradients of whole layers in accumulation or reduction at the peak, f32.
    reducing: u64,
    /// The optimizer's state on the device.
    optimizer: u64,
    /// Gradients on the way to the host that are rounded first.
    rounded: u64,
    /// Kept activations of all blocks.
    kept: u64,
    /// Temporary memory of a block or the output head at the peak.
    work: u64,
    /// Allowance for workspaces of libraries and gaps between tensors.
    allowance: u64,
    /// The rank's parameter shards on the host.
    host_parameters: u64,
    /// The optimizer's state on the host.
    host_optimizer: u64,
    /// Staging buffers on the host.
    host_staging: u64,
}

impl RankMemory {
    /// The memory of one of `shards` ranks that share the state of a model that is trained on GPUs.
    pub fn on_gpu(model: &ModelConfig, config: &TrainConfig, plan: ShardingPlan, shards: usize) -> Self {
        Self::new(model, config, &StepMemory::on_gpu(model, config), plan, shards)
    }

    /// The same on CPUs, where device and host are one memory.
    pub fn on_cpu(model: &ModelConfig, config: &TrainConfig, plan: ShardingPlan, shards: usize) -> Self {
        let plan = ShardingPlan { stage: plan.stage, ..ShardingPlan::default() };
        Self::new(model, config, &StepMemory::on_cpu(model, config, Arithmetic::Bf16), plan, shards)
    }

    /// The same of a learner [with exact attention](crate::Learner::with_exact_attention).
    pub fn on_cpu_exact(model: &ModelConfig, config: &TrainConfig, plan: ShardingPlan, shards: usize) -> Self {
        let plan = ShardingPlan { stage: plan.stage, ..ShardingPlan::default() };
        Self::new(model, config, &StepMemory::on_cpu(model, config, Arithmetic::F32), plan, shards)
    }

    fn new(model: &ModelConfig, config: &TrainConfig, step: &StepMemory, plan: ShardingPlan, shards: usize) -> Self {
        // Under an adapter, every rank has all weights of the model, without gradients and optimizer state.
        let (frozen, dequantised) = match (config.lora_r, config.quantize) {
            (None, _) => (0, 0),
            (Some(_), None) => ((Layout::new(&model.architecture).len() * config.dtype().bytes()) as u64, 0),
            (Some(_), Some(format)) => QuantisedLayers::bytes(&model.architecture, format, config.dtype()),
        };
        let trained = config.trained_layout(&model.architecture);
        let partition = Partition::new(&trained, 0, shards);
        let layers = 0..partition.layout().layers.len();
        let element = config.dtype().bytes() as u64;
        let padded = |layer: usize| partition.padded_len(layer) as u64;
        // Elements of the own shards, or of whole layers if the stage does not shard them.
        let own = |layer: usize, sharded_from: ZeroStage| match plan.stage >= sharded_from {
            true => partition.shard_len(layer) as u64,
            false => padded(layer),
        };
        let own_of_all = |sharded_from| layers.clone().map(|layer| own(layer, sharded_from)).sum::<u64>();
        let parameters = own_of_all(ZeroStage::Parameters) * element;
        let gathers = plan.gathers(shards);
        let parameters_on_host = plan.parameters == Placement::Host && plan.stage == ZeroStage::Parameters;
        // Parameters on the host are updated there.
        let optimizer_on_host = plan.optimizer == Placement::Host || parameters_on_host;
        // On the host, f32 parameters have master weights too, unless they are stored there themselves.
        let has_master = config.dtype() == WeightDtype::Bf16 || (optimizer_on_host && !parameters_on_host);
        let buffer_bytes = |buffer: &StateBuffer| match buffer.covers {
            Covers::All => own_of_all(ZeroStage::OptimizerState) * buffer.dtype.bytes() as u64,
            covers => (covers.layout(partition.layout()).len() * buffer.dtype.bytes()) as u64,
        };
        let master = if has_master { own_of_all(ZeroStage::OptimizerState) * 4 } else { 0 };
        let optimizer = optimizer::build(config).state().iter().map(buffer_bytes).sum::<u64>() + master;
        // Gradients are downloaded, in any format to as much memory as in f32, and new parameters uploaded.
        let staged = if parameters_on_host { 4 } else { 4 + element };
        let rounded = if config.optim_grad_dtype == WeightDtype::Bf16 { 2 } else { 0 };
        let largest = layers.clone().map(|layer| own(layer, ZeroStage::OptimizerState)).max().unwrap_or(0);
        let staging = |bytes| STAGING_BUFFERS as u64 * largest * bytes;
        let bytes = LayerBytes {
            parameters: &|layer| if gathers { padded(layer) * element } else { 0 },
            gradients: &|layer| if shards > 1 { padded(layer) * 4 } else { 0 },
            rounded: &|layer| match config.reduce_dtype {
                WeightDtype::Bf16 if shards > 1 => padded(layer) * 2,
                _ => 0,
            },
        };
        let whole = WholeLayers::new(partition.layout(), model.architecture.is_tied(), &bytes);
        // Blocks and head do not compute at the same time.
        let moments = [(whole.head, step.head), (whole.blocks, step.block)];
        let peak = moments.into_iter().max_by_key(|(whole, work)| whole.total() + work);
        let (Whole { gathered, reducing }, work) = peak.unwrap_or_default();
        let on = |here: bool, bytes: u64| if here { bytes } else { 0 };
        Self {
            parameters: frozen + on(!parameters_on_host, parameters),
            frozen,
            gathered: gathered + dequantised,
            gradients: own_of_all(ZeroStage::OptimizerState) * 4,
            reducing,
            optimizer: on(!optimizer_on_host, optimizer),
            rounded: on(optimizer_on_host, staging(rounded)),
            kept: step.kept,
            work,
            allowance: step.allowance,
            host_parameters: on(parameters_on_host, parameters),
            host_optimizer: on(optimizer_on_host, optimizer),
            host_staging: on(optimizer_on_host, staging(staged)),
        }
    }

    /// The same for `count` further learners of adapters of the same size over the same frozen weights. They take their steps one after
    /// another, so that activations and temporary memory are those of one.
    pub fn with_further_adapters(self, count: usize) -> Self {
        let all = |of_one: u64| of_one.saturating_mul(count as u64 + 1);
        Self {
            parameters: self.frozen + all(self.parameters - self.frozen),
            gradients: all(self.gradients),
            optimizer: all(self.optimizer),
            rounded: all(self.rounded),
            host_parameters: all(self.host_parameters),
            host_optimizer: all(self.host_optimizer),
            host_staging: all(self.host_staging),
            ..self
        }
    }

    /// Bytes of the rank's gradient sums, 4 for each parameter that it updates.
    pub fn gradients(&self) -> u64 {
        self.gradients
    }

    /// Bytes of the rank's optimizer state and master weights, on the device or the host.
    pub fn optimizer_state(&self) -> u64 {
        self.optimizer + self.host_optimizer
    }

    /// Bytes of the device in all.
    pub fn on_device(&self) -> u64 {
        self.rows().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of the host in all.
    pub fn on_host(&self) -> u64 {
        self.host_rows().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The parts of the device's memory.
    pub fn rows(&self) -> [(&'static str, u64); 9] {
        [
            ("parameters", self.parameters),
            ("gathered layers", self.gathered),
            ("gradients (f32)", self.gradients),
            ("gradients being reduced", self.reducing),
            ("optimizer state (f32)", self.optimizer),
            ("rounded gradients", self.rounded),
            ("activations of all blocks", self.kept),
            ("temporary (block or head)", self.work),
            ("allowance (libraries, gaps)", self.allowance),
        ]
    }

    /// The parts of the host's memory.
    pub fn host_rows(&self) -> [(&'static str, u64); 3] {
        [
            ("parameters", self.host_parameters),
            ("optimizer state (f32)", self.host_optimizer),
            ("staging buffers", self.host_staging),
        ]
    }
}

/// The parts of the device's memory that are not zero and their sum, one per line, in two columns.
impl fmt::Display for RankMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.rows().into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        let name = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let number = format_gib(self.on_device()).len();
        for (text, bytes) in rows {
            writeln!(f, "  {text:<name$}  {:>number$}", format_gib(bytes))?;
        }
        write!(f, "  {:<name$}  {:>number$}", "in all", format_gib(self.on_device()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ShardWithin;

    fn seven_billion() -> ModelConfig {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        ModelConfig::from_file(path).unwrap()
    }

    #[test]
    fn shards_within_a_host_take_the_memory_of_its_ranks() {
        let stage = ZeroStage::Parameters;
        let all = ShardingPlan { stage, ..ShardingPlan::default() };
        let host = ShardingPlan { within: ShardWithin::Host, ..all };
        assert_eq!([all, host].map(|plan| plan.shards(32, 8)), [32, 8]);
        assert_eq!(host.shards(4, 4), 4);
        let of = |plan: ShardingPlan| memory(WeightDtype::Bf16, plan, plan.shards(32, 8));
        assert!(of(host).optimizer > 3 * of(all).optimizer && of(host).gathered == of(all).gathered);
    }

    /// Two sequences of 2 048 tokens.
    fn memory(dtype: WeightDtype, plan: ShardingPlan, world_size: usize) -> RankMemory {
        let config = TrainConfig {
            per_device_train_batch_size: 2,
            max_length: 2048,
            bf16: dtype == WeightDtype::Bf16,
            gradient_checkpointing: true,
            ..TrainConfig::default()
        };
        RankMemory::on_gpu(&seven_billion(), &config, plan, world_size)
    }

    /// 6 738 415 616 parameters.
    #[test]
    fn seven_billion_parameters_by_hand() {
        let memory = memory(WeightDtype::Bf16, ShardingPlan::default(), 1);
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
            "optimizer state (f32) 75.31 GiB",
            "activations of all blocks 1.00 GiB",
            "temporary (block or head) 0.86 GiB",
            "in all 115.32 GiB",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} in\n{text}");
        }
    }

    /// Rank 16 for q and v: 32 blocks of four matrices of 16 × 4096.
    #[test]
    fn further_adapters_have_parameters_gradients_and_optimizer_state_of_their_own() {
        let config = TrainConfig { bf16: true, lora_r: Some(16), ..TrainConfig::default() };
        let one = RankMemory::on_gpu(&seven_billion(), &config, ShardingPlan::default(), 1);
        let two = one.with_further_adapters(1);
        let adapter = config.trained_layout(&seven_billion().architecture).len() as u64;
        // bf16, f32 gradients, two moments and master weights.
        assert_eq!(two.on_device() - one.on_device(), adapter * (2 + 4 + 8 + 4));
        assert_eq!((two.kept, two.work, two.frozen), (one.kept, one.work, one.frozen));
        assert_eq!(one.with_further_adapters(0), one);
    }

    #[test]
    fn offloaded_state_leaves_the_device() {
        for (dtype, there, away) in [(WeightDtype::Bf16, 12, 12), (WeightDtype::F32, 8, 12)] {
            let of = |optimizer| memory(dtype, ShardingPlan { optimizer, ..ShardingPlan::default() }, 1);
            let (device, host) = (of(Placement::Device), of(Placement::Host));
            assert_eq!(device.on_device() - host.on_device(), there * 6_738_415_616);
            // The host stores master weights for both formats.
            assert_eq!(host.on_host() - host.host_staging, away * 6_738_415_616);
        }
    }

    #[test]
    fn halved_gradients_have_twice_as_many_staging_buffers() {
        let config = TrainConfig { bf16: true, ..TrainConfig::default() };
        let of = |optim_grad_dtype, optimizer| {
            let (config, plan) = (
                TrainConfig { optim_grad_dtype, ..config.clone() },
                ShardingPlan { optimizer, ..ShardingPlan::default() },
            );
            RankMemory::on_gpu(&seven_billion(), &config, plan, 1)
        };
        let [f32, bf16] = [WeightDtype::F32, WeightDtype::Bf16].map(|dtype| of(dtype, Placement::Host));
        let block = 4 * 4096 * 4096 + 3 * 4096 * 11_008 + 2 * 4096;
        assert_eq!((f32.host_staging, bf16.host_staging), (2 * block * (4 + 2), 2 * block * (4 + 2)));
        assert_eq!((f32.rounded, bf16.rounded), (0, 2 * block * 2));
        // Rounded in place.
        assert_eq!(of(WeightDtype::F32, Placement::Device), of(WeightDtype::Bf16, Placement::Device));
    }

    /// 6 738 415 616 parameters on 8 ranks, both offloads; every layer is a multiple of 512 elements.
    #[test]
    fn seven_billion_parameters_on_eight_ranks_by_hand() {
        let host = Placement::Host;
        let stage = ZeroStage::Parameters;
        let plan = ShardingPlan { stage, optimizer: host, parameters: host, ..ShardingPlan::default() };
        let needs = memory(WeightDtype::Bf16, plan, 8);
        let part = 6_738_415_616 / 8;
        let block = 4 * 4096 * 4096 + 3 * 4096 * 11_008 + 2 * 4096;
        assert_eq!((needs.parameters, needs.optimizer), (0, 0));
        assert_eq!((needs.gradients, needs.host_parameters, needs.host_optimizer), (4 * part, 2 * part, 12 * part));
        assert_eq!((needs.gathered, needs.reducing), (3 * 2 * block, 2 * 4 * block));
        // Gradients alone: the parameters are there.
        assert_eq!(needs.host_staging, 2 * block / 8 * 4);
        // The head has more activations than a block, and fewer parameters than three.
        assert_eq!(needs.work, 673_185_792 + 524_288);
        assert!(needs.to_string().contains("in all"));
        // The optimizer's state is stored with the parameters, and f32 parameters have no copy.
        for (dtype, bytes) in [(WeightDtype::Bf16, 12), (WeightDtype::F32, 8)] {
            let needs = memory(dtype, ShardingPlan { optimizer: Placement::Device, ..plan }, 8);
            assert_eq!((needs.optimizer, needs.host_optimizer), (0, bytes * part));
        }
    }

    #[test]
    fn higher_stages_need_less_memory() {
        for ranks in [2, 8, 32] {
            let of = |stage| memory(WeightDtype::Bf16, ShardingPlan { stage, ..ShardingPlan::default() }, ranks);
            let needs = ZeroStage::ALL.map(|stage| of(stage).on_device());
            assert!(needs[0] > needs[1] && needs[1] == needs[2] && needs[2] > needs[3], "{ranks}: {needs:?}");
        }
    }
}
