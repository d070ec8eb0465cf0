//! Whether a run fits into memory, asked before anything is loaded, and where the optimizer's state lies.

use std::fmt::Write as _;

use spag_io::format_gib;
use spag_model::{
    Computer, LlamaConfig, OpenDevice, OptimizerPlace, RankMemory, TooLittleMemory, TrainingSettings, free_memory,
};

use crate::config::{OffloadOptimizer, OffloadParam, TrainConfig, ZeroStage};
use crate::error::Result;
use crate::zero::Zero;

/// What is asked of the state, before it is known where the optimizer's has room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// What is split.
    pub(crate) stage: ZeroStage,
    /// Where the parameters lie between their uses.
    pub(crate) parameters: OffloadParam,
    /// Where the optimizer's state may lie.
    pub(crate) optimizer: OffloadOptimizer,
}

/// How many processes train together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranks {
    /// In all.
    pub(crate) all: usize,
    /// On this machine, whose memory they share.
    pub(crate) on_host: usize,
}

/// What is free, in bytes, and where.
struct Free {
    device: u64,
    host: u64,
    name: String,
}

/// A run whose memory is added up.
#[derive(Clone)]
struct Planned<'a> {
    model: &'a LlamaConfig,
    config: TrainConfig,
    zero: Zero,
    ranks: Ranks,
}

/// Where the optimizer's state of a run on `device` lies, and that everything has room, on this rank's device and for all
/// ranks of this machine on the host.
///
/// On a CPU there is one memory, which is left to the operating system.
///
/// # Errors
/// Too little memory, with what is needed, what is free and what to change.
pub(crate) fn place_optimizer(
    model: &LlamaConfig,
    config: &TrainConfig,
    asked: Asked,
    ranks: Ranks,
    device: &OpenDevice,
) -> Result<OptimizerPlace> {
    if device.device().is_cpu() {
        return Ok(OptimizerPlace::Device);
    }
    let host = free_memory(OpenDevice::cpu().device())?.free;
    let free = Free { device: device.memory()?.free, host, name: device.to_string() };
    let zero = Zero { stage: asked.stage, parameters: asked.parameters, optimizer: OptimizerPlace::Device };
    place(&Planned { model, config: config.clone(), zero, ranks }, asked.optimizer, &free)
}

fn place(planned: &Planned<'_>, offload: OffloadOptimizer, free: &Free) -> Result<OptimizerPlace> {
    let places: &[OptimizerPlace] = match offload {
        OffloadOptimizer::None => &[OptimizerPlace::Device],
        OffloadOptimizer::Cpu => &[OptimizerPlace::Host],
        // Parameters on the host are updated there.
        OffloadOptimizer::Auto if planned.zero.parameters == OffloadParam::Cpu => &[OptimizerPlace::Host],
        OffloadOptimizer::Auto => &[OptimizerPlace::Device, OptimizerPlace::Host],
    };
    let mut refused = None;
    for place in places {
        let planned = planned.with_optimizer(*place);
        if planned.on_device() > free.device {
            refused = Some(TooLittleMemory {
                what: "training".into(),
                needed: planned.on_device(),
                free: free.device,
                place: format!("on {}", free.name),
                advice: planned.advice(free.device),
                table: planned.table(),
            });
        } else if planned.on_host() > free.host {
            refused = Some(TooLittleMemory {
                what: planned.kept_on_host(),
                needed: planned.on_host(),
                free: free.host,
                place: "on the host".into(),
                advice: planned.advice_for_host(free),
                table: planned.table(),
            });
        } else {
            return Ok(*place);
        }
    }
    match refused {
        Some(error) => Err(spag_model::Error::from(error).into()),
        None => Ok(OptimizerPlace::Device),
    }
}

/// A flag that saves memory, and what it changes.
type Change = (&'static str, fn(&mut TrainConfig, &mut Zero));

/// In the order in which they cost least. Parameters in bf16 have master weights, which save nothing on the device unless
/// these are on the host or split.
const CHANGES: [Change; 6] = [
    ("--gradient_checkpointing True", |config, _| config.gradient_checkpointing = true),
    ("--zero_stage 3", |_, zero| zero.stage = ZeroStage::Weights),
    ("--offload_optimizer cpu", |_, zero| zero.optimizer = OptimizerPlace::Host),
    ("--bf16 True", |config, _| config.bf16 = true),
    ("--offload_param cpu", |_, zero| {
        if zero.stage == ZeroStage::Weights {
            (zero.parameters, zero.optimizer) = (OffloadParam::Cpu, OptimizerPlace::Host);
        }
    }),
    ("--per_device_train_batch_size 1 with more --gradient_accumulation_steps", |config, _| {
        config.per_device_train_batch_size = 1;
    }),
];

impl Planned<'_> {
    fn with_optimizer(&self, optimizer: OptimizerPlace) -> Self {
        Self { zero: Zero { optimizer, ..self.zero }, ..self.clone() }
    }

    /// What one rank needs.
    fn memory(&self) -> RankMemory {
        let settings = TrainingSettings {
            dtype: self.config.dtype(),
            tokens: self.config.per_device_train_batch_size.saturating_mul(self.config.max_length),
            activations: self.config.activations(),
            optimizer: self.zero.optimizer,
        };
        RankMemory::new(self.model, &settings, &self.zero.spread(self.ranks.all, Computer::Gpu))
    }

    fn on_device(&self) -> u64 {
        self.memory().on_device()
    }

    /// What all ranks of this machine need.
    fn on_host(&self) -> u64 {
        self.memory().on_host().saturating_mul(self.ranks.on_host as u64)
    }

    fn kept_on_host(&self) -> String {
        match self.ranks.on_host {
            1 => "what training keeps on the host".into(),
            ranks => format!("what {ranks} ranks keep on the host"),
        }
    }

    fn table(&self) -> String {
        let memory = self.memory();
        let mut table = format!("\n{memory}");
        let host = memory.host_rows();
        for (name, bytes) in host.iter().filter(|(_, bytes)| *bytes > 0) {
            let _ = write!(table, "\n  on the host for each rank: {name} {}", format_gib(*bytes));
        }
        table
    }

    /// What can be changed, each with what the device would need then, all that came before included.
    fn advice(&self, free: u64) -> String {
        let mut planned = self.clone();
        let mut needed = planned.on_device();
        let mut steps = Vec::new();
        for (flag, change) in CHANGES {
            let mut changed = planned.clone();
            change(&mut changed.config, &mut changed.zero);
            let now = changed.on_device();
            if needed > free && now < needed {
                steps.push(format!("{flag} ({})", format_gib(now)));
                (planned, needed) = (changed, now);
            }
        }
        let last = "a shorter --max_length, a smaller model or a GPU with more memory";
        match (steps.is_empty(), needed <= free) {
            (true, _) => format!("take {last}"),
            (false, true) => format!("change, one after another: {}", steps.join(", ")),
            (false, false) => format!("change, one after another: {}, and take {last}", steps.join(", ")),
        }
    }

    fn advice_for_host(&self, free: &Free) -> String {
        let mut ways = Vec::new();
        let split = Planned { zero: Zero { stage: ZeroStage::Weights, ..self.zero }, ..self.clone() };
        if split.on_host() < self.on_host() {
            ways.push(format!(
                "with --zero_stage 3 the ranks here would need {} of the host",
                format_gib(split.on_host())
            ));
        }
        let there = Zero { optimizer: OptimizerPlace::Device, parameters: OffloadParam::None, ..self.zero };
        let there = Planned { zero: there, ..self.clone() };
        ways.push(format!(
            "on the device, with {}, the run would need {} there, and {} are free",
            match self.zero.parameters {
                OffloadParam::None => "--offload_optimizer none",
                OffloadParam::Cpu => "--offload_optimizer none --offload_param none",
            },
            format_gib(there.on_device()),
            format_gib(free.device)
        ));
        ways.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn seven_billion() -> LlamaConfig {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        LlamaConfig::from_file(path).unwrap()
    }

    /// Two sequences of 2 048 tokens: 115.3 GiB on the device, or 40.0 GiB there and 77.6 GiB on the host.
    fn config() -> TrainConfig {
        TrainConfig {
            per_device_train_batch_size: 2,
            max_length: 2048,
            bf16: true,
            gradient_checkpointing: true,
            ..TrainConfig::default()
        }
    }

    fn on(device: u64, host: u64) -> Free {
        Free { device: device * GIB, host: host * GIB, name: "cuda:0 (NVIDIA X)".into() }
    }

    fn placed(offload: OffloadOptimizer, free: &Free) -> Result<OptimizerPlace> {
        planned(&seven_billion(), &config(), 1, offload, free)
    }

    fn planned(
        model: &LlamaConfig,
        config: &TrainConfig,
        ranks: usize,
        offload: OffloadOptimizer,
        free: &Free,
    ) -> Result<OptimizerPlace> {
        let ranks = Ranks { all: ranks, on_host: ranks };
        place(&Planned { model, config: config.clone(), zero: Zero::default(), ranks }, offload, free)
    }

    #[test]
    fn the_optimizer_lies_where_there_is_room() {
        use OffloadOptimizer::{Auto, Cpu, None};
        assert_eq!(placed(Auto, &on(139, 1000)).unwrap(), OptimizerPlace::Device);
        assert_eq!(placed(Auto, &on(79, 1000)).unwrap(), OptimizerPlace::Host);
        assert_eq!(placed(Cpu, &on(139, 1000)).unwrap(), OptimizerPlace::Host);
        assert_eq!(placed(None, &on(139, 0)).unwrap(), OptimizerPlace::Device);
    }

    #[test]
    fn too_little_memory_says_what_to_change() {
        let error = |config: &TrainConfig, offload, free: &Free| {
            planned(&seven_billion(), config, 1, offload, free).unwrap_err().to_string()
        };
        let text = error(&config(), OffloadOptimizer::None, &on(79, 1000));
        for part in [
            "training needs 115.32 GiB, and 79.00 GiB are free on cuda:0 (NVIDIA X)",
            "--offload_optimizer cpu (40.01 GiB)\n",
            "AdamW's state (f32)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let plain = TrainConfig { bf16: false, gradient_checkpointing: false, ..config() };
        let text = error(&plain, OffloadOptimizer::None, &on(24, 1000));
        let flags = ["--gradient_checkpointing True", "--offload_optimizer cpu", "--bf16 True", "train_batch_size 1"];
        let places: Vec<usize> = flags.iter().map(|flag| text.find(flag).unwrap()).collect();
        assert!(places.is_sorted() && text.contains("a smaller model or a GPU with more memory"), "{text}");
        let text = error(&config(), OffloadOptimizer::Auto, &on(79, 64));
        assert!(
            text.contains("what training keeps on the host needs 77.57 GiB, and 64.00 GiB are free on the host"),
            "{text}"
        );
        assert!(text.contains("would need 115.32 GiB there, and 79.00 GiB are free"), "{text}");
    }

    #[test]
    fn ranks_share_the_host_and_split_what_they_are_told_to() {
        let model = seven_billion();
        let of = |ranks, stage, parameters, offload, free: &Free| {
            let ranks = Ranks { all: ranks, on_host: ranks };
            let zero = Zero { stage, parameters, optimizer: OptimizerPlace::Device };
            place(&Planned { model: &model, config: config(), zero, ranks }, offload, free)
        };
        use OffloadOptimizer::{Auto, Cpu, None};
        let whole = ZeroStage::Disabled;
        // Each rank has all of the state on the one host.
        assert_eq!(of(1, whole, OffloadParam::None, Cpu, &on(79, 300)).unwrap(), OptimizerPlace::Host);
        let text = of(8, whole, OffloadParam::None, Cpu, &on(79, 300)).unwrap_err().to_string();
        assert!(text.contains("what 8 ranks keep on the host needs 6"), "{text}");
        assert!(text.contains("with --zero_stage 3 the ranks here would need 77.57 GiB of the host"), "{text}");
        // Split, it has room on the devices: 15.69 GiB and what passes through.
        assert_eq!(of(8, ZeroStage::Weights, OffloadParam::None, Auto, &on(39, 300)).unwrap(), OptimizerPlace::Device);
        assert_eq!(of(8, ZeroStage::Weights, OffloadParam::Cpu, Auto, &on(12, 300)).unwrap(), OptimizerPlace::Host);
        let text = of(8, whole, OffloadParam::None, None, &on(39, 300)).unwrap_err().to_string();
        assert!(text.contains("change, one after another: --zero_stage 3 (") && !text.contains("offload"), "{text}");
        let text = of(8, whole, OffloadParam::None, None, &on(9, 300)).unwrap_err().to_string();
        let flags = ["--zero_stage 3 (", "--offload_optimizer cpu (", "--offload_param cpu ("];
        let places: Vec<usize> = flags.iter().map(|flag| text.find(flag).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        // Of one process nothing can be split.
        let text = of(1, whole, OffloadParam::None, None, &on(24, 300)).unwrap_err().to_string();
        assert!(!text.contains("--zero_stage") && !text.contains("--offload_param"), "{text}");
    }
}
