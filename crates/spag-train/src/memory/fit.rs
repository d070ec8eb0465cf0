//! Whether a run fits into the free memory, checked before anything is loaded.

use std::fmt::Write as _;

use spag_io::format_gib;
use spag_model::ModelConfig;
use spag_model::generate::MemoryBudget;
use spag_model::model::Activations;
use spag_ops::{OpenDevice, TooLittleMemory, free_memory};

use super::RankMemory;
use crate::config::{KeptBlocks, Placement, ShardingPlan, ShardingRequest, TrainConfig, ZeroStage};
use crate::error::Result;

/// Free bytes.
struct Free {
    device: u64,
    host: u64,
    /// The device's name.
    name: String,
}

/// A training run on GPUs whose memory is calculated.
#[derive(Clone, Debug)]
pub struct PlannedRun<'a> {
    /// The model.
    pub model: &'a ModelConfig,
    /// The settings.
    pub config: TrainConfig,
    /// What is sharded, and where it is stored.
    pub plan: ShardingPlan,
    /// Ranks in all.
    pub world_size: usize,
    /// Ranks per host, which share its memory.
    pub local_size: usize,
    /// Bytes of each rank's device that are for others in its process.
    pub beside: u64,
    /// Further adapters that are trained over the same frozen weights.
    pub further_adapters: usize,
}

/// Bytes of each rank's device that a run needs beside its learner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// To work at all.
    pub least: u64,
    /// To work at full speed. The optimizer's state is stored on the host to make room for it, if its place is left open.
    pub wanted: u64,
    /// Further adapters that are trained over the frozen weights of the learner.
    pub further_adapters: usize,
}

/// What [`fit`] chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// What is sharded, and where it is stored.
    pub sharding: ShardingPlan,
    /// The activations that are kept.
    pub activations: Activations,
}

/// Chooses where the optimizer's state is stored and how many blocks keep their activations, if that is left open, and checks that the
/// run fits: on this rank's device with what is `beside` it, and for all ranks of this machine on the host.
///
/// `world_size` counts all ranks and `local_size` those of this machine. On a CPU, nothing is checked, because the operating system
/// can swap.
///
/// # Errors
/// More blocks with kept activations than the model has, or too little memory, with what is needed, what is free and what to change.
pub fn fit(
    model: &ModelConfig,
    config: &TrainConfig,
    request: ShardingRequest,
    (world_size, local_size): (usize, usize),
    beside: Beside,
    device: &OpenDevice,
) -> Result<Fitted> {
    config.check_for(&model.architecture)?;
    let ShardingRequest { stage, within, parameters, optimizer } = request;
    let plan = ShardingPlan { stage, within, parameters, optimizer: Placement::Device };
    let Beside { least, wanted, further_adapters } = beside;
    let config = config.clone();
    let run = PlannedRun { model, config, plan, world_size, local_size, beside: wanted, further_adapters };
    if device.device().is_cpu() {
        let room = match run.config.keep_activations {
            KeptBlocks::Auto => device.memory()?.free / MemoryBudget::HOST_SHARE / local_size.max(1) as u64,
            KeptBlocks::Count(_) => 0,
        };
        let shards = plan.shards(world_size, local_size);
        let needed = |run: &PlannedRun<'_>| RankMemory::on_cpu_exact(model, &run.config, plan, shards).on_device();
        return Ok(run.keeping_what(|run| needed(run) <= room).fitted());
    }
    let host = free_memory(OpenDevice::cpu().device())?.free;
    let free = Free { device: device.memory()?.free, host, name: device.to_string() };
    let run =
        run.fit(optimizer, &free).or_else(|_| PlannedRun { beside: least, ..run.clone() }.fit(optimizer, &free))?;
    Ok(run.keeping_what(|run| run.check(&free).is_ok()).fitted())
}

/// A flag that saves memory, and its effect.
type Change = (&'static str, fn(&mut TrainConfig, &mut ShardingPlan));

/// The cheapest first. bf16 parameters have master weights, which save device memory only if these are offloaded or
/// sharded.
const CHANGES: [Change; 7] = [
    ("--keep_activations 0", |config, _| config.keep_activations = KeptBlocks::Count(0)),
    ("--gradient_checkpointing True", |config, _| config.gradient_checkpointing = true),
    ("--zero_stage 3", |_, plan| plan.stage = ZeroStage::Parameters),
    ("--offload_optimizer cpu", |_, plan| plan.optimizer = Placement::Host),
    ("--bf16 True", |config, _| config.bf16 = true),
    ("--offload_param cpu", |_, plan| {
        if plan.stage == ZeroStage::Parameters {
            (plan.parameters, plan.optimizer) = (Placement::Host, Placement::Host);
        }
    }),
    ("--per_device_train_batch_size 1 with more --gradient_accumulation_steps", |config, _| {
        config.per_device_train_batch_size = 1;
    }),
];

impl PlannedRun<'_> {
    /// The same run; if it may choose how many blocks keep their activations, with as many as `fits` allows.
    pub fn keeping_what(&self, fits: impl Fn(&Self) -> bool) -> Self {
        let keeping = |count| {
            let config = self.config.clone().with_activations(Activations::KeepLast(count));
            Self { config, ..self.clone() }
        };
        match (self.config.gradient_checkpointing, self.config.keep_activations) {
            (true, KeptBlocks::Auto) => {
                let counts = (1..=self.model.architecture.num_hidden_layers).rev();
                counts.map(keeping).find(fits).unwrap_or_else(|| keeping(0))
            }
            _ => self.clone(),
        }
    }

    fn fitted(&self) -> Fitted {
        Fitted { sharding: self.plan, activations: self.config.activations() }
    }

    /// The first plan that fits, or the refusal of the last one.
    fn fit(&self, optimizer: Option<Placement>, free: &Free) -> Result<Self> {
        let placements = match optimizer {
            Some(placement) => vec![placement],
            // Parameters on the host are updated there.
            None if self.plan.parameters == Placement::Host => vec![Placement::Host],
            None => vec![Placement::Device, Placement::Host],
        };
        let mut outcome = Ok(self.clone());
        for optimizer in placements {
            let run = self.with(ShardingPlan { optimizer, ..self.plan });
            outcome = run.check(free).map(|()| run);
            if outcome.is_ok() {
                break;
            }
        }
        Ok(outcome.map_err(spag_ops::Error::from)?)
    }

    fn check(&self, free: &Free) -> Result<(), TooLittleMemory> {
        let refused = |what: String, needed, free, place, advice| TooLittleMemory {
            what,
            needed,
            free,
            place,
            advice,
            table: self.table(),
        };
        if self.on_device() > free.device {
            let place = format!("on {}", free.name);
            let (what, shorter) = match self.beside {
                0 => ("training", "--max_length"),
                _ => ("training with generation beside it", "self_play.max_length"),
            };
            let last_resort = format!("a shorter {shorter}, a smaller model or a GPU with more memory");
            let advice = self.advice(free.device, &last_resort);
            return Err(refused(what.into(), self.on_device(), free.device, place, advice));
        }
        if self.on_host() > free.host {
            let what = match self.local_size {
                1 => "the host state of training".into(),
                ranks => format!("the host state of {ranks} ranks"),
            };
            return Err(refused(what, self.on_host(), free.host, "on the host".into(), self.advice_for_host(free)));
        }
        Ok(())
    }

    fn with(&self, plan: ShardingPlan) -> Self {
        Self { plan, ..self.clone() }
    }

    /// The memory of one rank.
    pub fn memory(&self) -> RankMemory {
        let memory =
            RankMemory::on_gpu(self.model, &self.config, self.plan, self.plan.shards(self.world_size, self.local_size));
        memory.with_further_adapters(self.further_adapters)
    }

    fn on_device(&self) -> u64 {
        self.memory().on_device().saturating_add(self.beside)
    }

    /// Bytes of a host, for all its ranks.
    pub fn on_host(&self) -> u64 {
        self.memory().on_host().saturating_mul(self.local_size as u64)
    }

    fn table(&self) -> String {
        let memory = self.memory();
        let mut table = format!("\n{memory}");
        if self.beside > 0 {
            let _ = write!(table, "\n  beside the learner: {}", format_gib(self.beside));
        }
        for (name, bytes) in memory.host_rows().iter().filter(|(_, bytes)| *bytes > 0) {
            let _ = write!(table, "\n  on the host for each rank: {name} {}", format_gib(*bytes));
        }
        table
    }

    /// The flags to change for a device with `free` bytes, each with the device memory needed after it and all before it.
    /// `last_resort` is what helps if the flags do not.
    pub fn advice(&self, free: u64, last_resort: &str) -> String {
        let mut run = self.clone();
        let mut needed = run.on_device();
        let mut steps = Vec::new();
        for (flag, change) in CHANGES {
            let mut changed = run.clone();
            change(&mut changed.config, &mut changed.plan);
            let now = changed.on_device();
            if needed > free && now < needed {
                steps.push(format!("{flag} ({})", format_gib(now)));
                (run, needed) = (changed, now);
            }
        }
        let steps = steps.join(", ");
        match (steps.is_empty(), needed <= free) {
            (true, _) => format!("take {last_resort}"),
            (false, true) => format!("change, one after another: {steps}"),
            (false, false) => format!("change, one after another: {steps}, and take {last_resort}"),
        }
    }

    fn advice_for_host(&self, free: &Free) -> String {
        let mut ways = Vec::new();
        let sharded = self.with(ShardingPlan { stage: ZeroStage::Parameters, ..self.plan });
        if sharded.on_host() < self.on_host() {
            let needed = format_gib(sharded.on_host());
            ways.push(format!("with --zero_stage 3 the ranks here would need {needed} of the host"));
        }
        let (optimizer, parameters) = (Placement::Device, Placement::Device);
        let on_device = ShardingPlan { optimizer, parameters, ..self.plan };
        ways.push(format!(
            "with {}, the run would need {} of the device, and {} are free",
            match self.plan.parameters {
                Placement::Device => "--offload_optimizer none",
                Placement::Host => "--offload_optimizer none --offload_param none",
            },
            format_gib(self.with(on_device).on_device()),
            format_gib(free.device)
        ));
        ways.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use Placement::{Device, Host};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn seven_billion() -> ModelConfig {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        ModelConfig::from_file(path).unwrap()
    }

    /// Two sequences of 2 048 tokens: 115.3 GiB on the device, or 40.0 GiB on the device and 77.6 GiB on the host.
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

    fn fit_one(optimizer: Option<Placement>, free: &Free) -> Result<Placement> {
        fit(&config(), 1, ShardingPlan::default(), optimizer, free)
    }

    fn fit(
        config: &TrainConfig,
        ranks: usize,
        plan: ShardingPlan,
        optimizer: Option<Placement>,
        free: &Free,
    ) -> Result<Placement> {
        let (model, config) = (&seven_billion(), config.clone());
        let run =
            PlannedRun { model, config, plan, world_size: ranks, local_size: ranks, beside: 0, further_adapters: 0 };
        Ok(run.fit(optimizer, free)?.plan.optimizer)
    }

    #[test]
    fn optimizer_is_offloaded_only_if_the_device_is_too_small() {
        assert_eq!(fit_one(None, &on(139, 1000)).unwrap(), Device);
        assert_eq!(fit_one(None, &on(79, 1000)).unwrap(), Host);
        assert_eq!(fit_one(Some(Host), &on(139, 1000)).unwrap(), Host);
        assert_eq!(fit_one(Some(Device), &on(139, 0)).unwrap(), Device);
    }

    #[test]
    fn refusal_lists_what_to_change() {
        let error = |config: &TrainConfig, optimizer, free: &Free| {
            fit(config, 1, ShardingPlan::default(), optimizer, free).unwrap_err().to_string()
        };
        let text = error(&config(), Some(Device), &on(79, 1000));
        for part in [
            "training needs 115.32 GiB, and 79.00 GiB are free on cuda:0 (NVIDIA X)",
            "--offload_optimizer cpu (40.01 GiB)\n",
            "optimizer state (f32)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let plain = TrainConfig { bf16: false, gradient_checkpointing: false, ..config() };
        let text = error(&plain, Some(Device), &on(24, 1000));
        let flags = ["--gradient_checkpointing True", "--offload_optimizer cpu", "--bf16 True", "train_batch_size 1"];
        let places: Vec<usize> = flags.iter().map(|flag| text.find(flag).unwrap()).collect();
        assert!(places.is_sorted() && text.contains("a smaller model or a GPU with more memory"), "{text}");
        let text = error(&config(), None, &on(79, 64));
        assert!(
            text.contains("the host state of training needs 77.57 GiB, and 64.00 GiB are free on the host"),
            "{text}"
        );
        assert!(text.contains("would need 115.32 GiB of the device, and 79.00 GiB are free"), "{text}");
    }

    /// 40.0 GiB are the learner's with its optimizer on the host, 115.3 GiB with all of it on the device.
    #[test]
    fn engines_beside_the_learner_take_room() {
        let (model, config) = (&seven_billion(), config());
        let run = |gib| {
            let (config, plan) = (config.clone(), ShardingPlan::default());
            PlannedRun { model, config, plan, world_size: 1, local_size: 1, beside: gib * GIB, further_adapters: 0 }
        };
        let placed = |gib, device| run(gib).fit(None, &on(device, 1000)).map(|run| run.plan.optimizer);
        assert_eq!(placed(23, 139).unwrap(), Device);
        assert_eq!(placed(24, 139).unwrap(), Host);
        assert_eq!(placed(38, 79).unwrap(), Host);
        let text = placed(39, 79).unwrap_err().to_string();
        for part in ["training with generation beside it needs 79.01 GiB", "beside the learner: 39.00 GiB"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = placed(60, 79).unwrap_err().to_string();
        assert!(text.contains("take a shorter self_play.max_length"), "{text}");
    }

    /// A block's activations are 0.33 GiB beside its input.
    #[test]
    fn activations_are_kept_as_far_as_they_fit() {
        let (model, auto) = (&seven_billion(), TrainConfig { keep_activations: KeptBlocks::Auto, ..config() });
        let run = |config: &TrainConfig| {
            let (config, plan) = (config.clone(), ShardingPlan::default());
            PlannedRun { model, config, plan, world_size: 1, local_size: 1, beside: 0, further_adapters: 0 }
        };
        let kept = |gib| {
            let free = on(gib, 1000);
            let fitted = run(&auto).fit(Some(Device), &free).unwrap().keeping_what(|run| run.check(&free).is_ok());
            fitted.fitted().activations.kept_of(32)
        };
        assert_eq!([116, 117, 120, 124, 139].map(kept), [2, 5, 14, 26, 32]);
        for gib in [116, 120] {
            let with = |count| TrainConfig { keep_activations: KeptBlocks::Count(count), ..config() };
            let fits = |count| run(&with(count)).check(&on(gib, 1000)).is_ok();
            assert!(fits(kept(gib)) && !fits(kept(gib) + 1), "{gib}");
        }
        let text = fit(
            &TrainConfig { keep_activations: KeptBlocks::Count(9), ..config() },
            1,
            ShardingPlan::default(),
            Some(Device),
            &on(116, 1000),
        );
        assert!(
            text.unwrap_err().to_string().contains("change, one after another: --keep_activations 0 (115.32 GiB)\n")
        );
    }

    #[test]
    fn ranks_share_the_host_and_shard_by_stage() {
        let of = |ranks, stage, parameters, optimizer, free: &Free| {
            let plan = ShardingPlan { stage, parameters, ..ShardingPlan::default() };
            fit(&config(), ranks, plan, optimizer, free)
        };
        let whole = ZeroStage::Disabled;
        // Each rank stores the whole state on the one host.
        assert_eq!(of(1, whole, Device, Some(Host), &on(79, 300)).unwrap(), Host);
        let text = of(8, whole, Device, Some(Host), &on(79, 300)).unwrap_err().to_string();
        assert!(text.contains("the host state of 8 ranks needs 6"), "{text}");
        assert!(text.contains("with --zero_stage 3 the ranks here would need 77.57 GiB of the host"), "{text}");
        // Sharded, it fits on the devices: 15.69 GiB and gathered layers.
        assert_eq!(of(8, ZeroStage::Parameters, Device, None, &on(39, 300)).unwrap(), Device);
        assert_eq!(of(8, ZeroStage::Parameters, Host, None, &on(12, 300)).unwrap(), Host);
        let text = of(8, whole, Device, Some(Device), &on(39, 300)).unwrap_err().to_string();
        assert!(text.contains("change, one after another: --zero_stage 3 (") && !text.contains("offload"), "{text}");
        let text = of(8, whole, Device, Some(Device), &on(9, 300)).unwrap_err().to_string();
        let flags = ["--zero_stage 3 (", "--offload_optimizer cpu (", "--offload_param cpu ("];
        let places: Vec<usize> = flags.iter().map(|flag| text.find(flag).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        // One process has nothing to shard.
        let text = of(1, whole, Device, Some(Device), &on(24, 300)).unwrap_err().to_string();
        assert!(!text.contains("--zero_stage") && !text.contains("--offload_param"), "{text}");
    }
}
