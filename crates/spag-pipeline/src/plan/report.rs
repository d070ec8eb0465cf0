//! The report of a plan, as text and as JSON.

use std::fmt::Write as _;

use crate::OnlineMemory;
use serde::Serialize;
use serde_json::{Value, json};
use spag_io::{escape, format_gib, gib};
use spag_model::generate::{GenerationMemory, GenerationMemorySettings, PromptLogProbs};
use spag_model::{EngineConfig, ModelConfig};
use spag_train::{
    IntervalStrategy, KeptBlocks, Placement, PlannedRun, RankMemory, ShardWithin, ShardingPlan, TrainConfig, ZeroStage,
};

use super::assumptions::{Assumptions, giga};
use super::settings::Settings;
use super::time::{PlannedStep, StepTime};
use crate::config::Figures;

pub(super) const GIB: f64 = (1u64 << 30) as f64;

/// The figures of one plan.
pub(super) struct Row {
    pub(super) plan: ShardingPlan,
    /// Blocks whose activations are kept; `None` if all are.
    kept: Option<usize>,
    pub(super) memory: RankMemory,
    /// For all GPUs of a host.
    pub(super) host_bytes: u64,
    pub(super) time: StepTime,
    /// Games that fit at once beside the learner, if its run is on-policy.
    pub(super) games: Option<u64>,
    /// Missing GiB of the device, or 0.
    missing: f64,
    /// Missing GiB of the host, or 0.
    missing_on_host: f64,
}

impl Row {
    /// GiB that a GPU or a host lacks, or 0.
    pub(super) fn lacks(&self) -> f64 {
        self.missing.max(self.missing_on_host)
    }

    pub(super) fn fits(&self) -> bool {
        self.lacks() == 0.0
    }
}

/// Everything that the report is made from.
pub(super) struct Report<'a> {
    model: &'a ModelConfig,
    settings: &'a Settings,
    gpu: Figures,
    assumed: Assumptions,
    /// What is beside the learner of an on-policy run.
    online: Option<&'a OnlineMemory>,
}

#[derive(Serialize)]
struct Playing {
    weights: u64,
    bytes_per_token: u64,
    work: u64,
    /// Games of --max_length tokens that fit beside the weights.
    games: u64,
}

impl<'a> Report<'a> {
    pub(super) fn new(model: &'a ModelConfig, settings: &'a Settings) -> Self {
        let assumed = Assumptions::new(settings.network);
        Self { model, settings, gpu: settings.figures, assumed, online: None }
    }

    /// The report of an on-policy run's learner, with what is beside it.
    pub(super) fn with_online(self, online: Option<&'a OnlineMemory>) -> Self {
        Self { online, ..self }
    }

    fn usable(&self) -> f64 {
        (self.settings.gpu_memory - self.assumed.driver_gib).max(0.0)
    }

    /// Bytes of a GPU that a run may use, less those of a learner.
    pub(super) fn left_by(&self, learner: &RankMemory) -> u64 {
        ((self.usable() * GIB) as u64).saturating_sub(learner.on_device())
    }

    fn run(&self, plan: ShardingPlan) -> PlannedRun<'_> {
        PlannedRun {
            model: self.model,
            config: self.settings.config.clone(),
            plan,
            world_size: self.settings.gpus,
            local_size: self.settings.local_gpus(),
            beside: self.online.map_or(0, |online| online.beside().least),
            further_adapters: self.online.map_or(0, OnlineMemory::further_adapters),
        }
    }

    fn row(&self, plan: ShardingPlan) -> Row {
        let usable = (self.usable() * GIB) as u64;
        let run = self.run(plan).keeping_what(|run| run.memory().on_device().saturating_add(run.beside) <= usable);
        let memory = run.memory();
        let over = |needed: f64, available: f64| if needed > available { needed - available } else { 0.0 };
        Row {
            plan,
            memory,
            host_bytes: run.on_host(),
            kept: run.config.activations().kept(),
            time: self.step(plan, &run.config, &memory).time(),
            games: self.online.map(|online| online.games_that_fit(self.left_by(&memory))),
            missing: over(gib(memory.on_device() + run.beside), self.usable()),
            missing_on_host: self.settings.host_memory.map_or(0.0, |available| over(gib(run.on_host()), available)),
        }
    }

    fn step<'r>(&'r self, plan: ShardingPlan, config: &'r TrainConfig, memory: &'r RankMemory) -> PlannedStep<'r> {
        let Self { model, settings, gpu, assumed, .. } = self;
        PlannedStep { model: &model.architecture, settings, config, plan, memory, gpu, assumed }
    }

    /// Every plan that is compared.
    pub(super) fn rows(&self) -> Vec<Row> {
        let Settings { gpus, gpus_per_node, plan, .. } = self.settings;
        // Hosts with as many GPUs each can shard within themselves.
        let several = gpus > gpus_per_node && gpus.is_multiple_of(*gpus_per_node);
        let sharded = ShardingPlan::all().into_iter().filter(|plan| several && plan.stage != ZeroStage::Disabled);
        let within = sharded.map(|plan| ShardingPlan { within: ShardWithin::Host, ..plan });
        let plans = plan.map_or_else(|| ShardingPlan::all().into_iter().chain(within).collect(), |plan| vec![plan]);
        plans.into_iter().map(|plan| self.row(plan)).collect()
    }

    /// The fastest plan that fits: with room for all games of a rank, if any has it. Ties are broken by the least host memory, then
    /// the least device memory.
    pub(super) fn best<'r>(&self, rows: &'r [Row]) -> Option<&'r Row> {
        let waits =
            |row: &&Row| self.online.zip(row.games).is_some_and(|(online, games)| games < online.games() as u64);
        let rank = |row: &&Row| (row.memory.on_host(), row.memory.on_device());
        let order = |a: &&Row, b: &&Row| {
            waits(a).cmp(&waits(b)).then(a.time.step.total_cmp(&b.time.step)).then(rank(a).cmp(&rank(b)))
        };
        rows.iter().filter(|row| row.fits()).min_by(order)
    }

    /// The requested plan; if none is, the fastest that fits, or the one that lacks the least memory.
    pub(super) fn choice(&self) -> Option<Row> {
        let mut rows = self.rows();
        let chosen = self.best(&rows).or_else(|| least_missing(&rows))?.plan;
        let at = rows.iter().position(|row| row.plan == chosen)?;
        Some(rows.swap_remove(at))
    }

    fn playing(&self) -> Playing {
        let settings = |games: usize| GenerationMemorySettings {
            dtype: self.settings.config.dtype(),
            activations: self.settings.config.dtype(),
            cached_tokens: games.saturating_mul(self.settings.config.max_length),
            running: games,
            step_tokens: EngineConfig::DEFAULT_STEP_TOKENS,
            prompt_log_probs: PromptLogProbs::None,
        };
        let none = GenerationMemory::new(self.model, &settings(0));
        let one = GenerationMemory::new(self.model, &settings(1));
        let room = self.usable() * GIB - none.total() as f64;
        Playing {
            weights: none.parameters,
            bytes_per_token: GenerationMemory::per_token(self.model, self.settings.config.dtype()),
            work: one.block + one.logits,
            games: (room.max(0.0) / (one.total() - none.total()).max(1) as f64) as u64,
        }
    }

    fn assumptions(&self) -> Vec<String> {
        let (gpu, assumed) = (&self.gpu, &self.assumed);
        let published = format!(
            "published for {}: {:.0} TFLOP/s in {}, memory {}, links between GPUs {}, to the host {}, in each direction",
            gpu.name,
            gpu.flops(self.settings.config.dtype()) / 1e12,
            self.settings.config.dtype(),
            giga(gpu.memory_bytes),
            giga(gpu.link_bytes),
            giga(gpu.host_link_bytes),
        );
        let lengths = self.settings.workload.lengths.clone();
        let left_out = "a step takes no less: launches, norms, activations and ℓ_ref are not counted".to_owned();
        [published].into_iter().chain(assumed.lines()).chain([lengths, left_out]).collect()
    }

    pub(super) fn json(&self) -> Value {
        let rows = self.rows();
        let best = self.best(&rows).map(|row| row.plan);
        let of = |row: &Row| {
            let named =
                |rows: &[(&str, u64)]| rows.iter().map(|(name, bytes)| ((*name).to_owned(), json!(bytes))).collect();
            json!({
                "zero_stage": row.plan.stage.number(),
                "offload_optimizer": row.plan.optimizer == Placement::Host,
                "offload_param": row.plan.parameters == Placement::Host,
                "shard_within": row.plan.within,
                "keep_activations": row.kept,
                "fits": row.fits(),
                "recommended": best == Some(row.plan),
                "gpu_bytes": row.memory.on_device(),
                "gpu": Value::Object(named(&row.memory.rows())),
                "host_bytes_per_gpu": row.memory.on_host(),
                "host_bytes": row.host_bytes,
                "host": Value::Object(named(&row.memory.host_rows())),
                "seconds": row.time,
            })
        };
        json!({
            "settings": self.settings,
            "workload": self.settings.workload,
            "parameters": spag_model::params::Layout::new(&self.model.architecture).len(),
            "plans": rows.iter().map(of).collect::<Vec<_>>(),
            "playing": self.playing(),
            "gpu_figures": self.gpu,
            "assumed": self.assumed,
        })
    }

    pub(super) fn text(&self) -> String {
        let settings = self.settings;
        let mut out = format!(
            "{}: {:.2} billion parameters, {}\n{} × {}, {} GiB each{}\n{} × {} tokens per micro-batch, {} micro-batches of a rank in a step, {}\n",
            escape(&settings.model.display().to_string()),
            spag_model::params::Layout::new(&self.model.architecture).len() as f64 / 1e9,
            settings.config.dtype(),
            settings.gpus,
            self.gpu.name,
            settings.gpu_memory,
            settings.host_memory.map(|memory| format!("; {memory} GiB per host")).unwrap_or_default(),
            settings.config.per_device_train_batch_size,
            settings.config.max_length,
            settings.config.gradient_accumulation_steps,
            match (settings.config.gradient_checkpointing, settings.config.keep_activations) {
                (false, _) => "activations kept".to_owned(),
                (true, KeptBlocks::Count(0)) => "activations recomputed".to_owned(),
                (true, KeptBlocks::Count(count)) => format!("activations of {count} blocks kept, others recomputed"),
                (true, KeptBlocks::Auto) => "activations of as many blocks kept as fit, others recomputed".to_owned(),
            },
        );
        if let Some(scheduler) = settings.scheduler {
            let _ = writeln!(out, "schedule: {scheduler} of the DeepSpeed file, which replaces --lr_scheduler_type");
        }
        let rows = self.rows();
        let best = self.best(&rows);
        let detailed = best.or_else(|| least_missing(&rows));
        if rows.len() > 1 {
            out.push_str(&self.table(&rows, best));
        }
        if let Some(row) = detailed {
            out.push_str(&self.details(row, best.is_some()));
        }
        out.push_str(&self.playing_text());
        for line in self.assumptions() {
            let _ = writeln!(out, "{line}");
        }
        out
    }

    fn table(&self, rows: &[Row], best: Option<&Row>) -> String {
        let mut out =
            String::from("\nstage  shards over  optimizer  parameters      GPU GiB  host GiB  s/step  fits\n");
        for row in rows {
            let place = |host: bool| if host { "host" } else { "device" };
            let mark = match (row.fits(), best.is_some_and(|best| best.plan == row.plan)) {
                (true, true) => "yes, the fastest",
                (true, false) => "yes",
                (false, _) => "no",
            };
            let _ = writeln!(
                out,
                "{:<5}  {:<11}  {:<9}  {:<10}  {:>11.2}  {:>8.1}  {:>6.2}  {mark}",
                row.plan.stage.number(),
                row.plan.within.to_string(),
                place(row.plan.optimizer == Placement::Host),
                place(row.plan.parameters == Placement::Host),
                gib(row.memory.on_device()),
                gib(row.host_bytes),
                row.time.step,
            );
        }
        out
    }

    fn details(&self, row: &Row, fits: bool) -> String {
        let kept = row.kept.filter(|count| *count > 0).map(|count| format!(" --keep_activations {count}"));
        let flags = row.plan.flags() + &kept.unwrap_or_default();
        let fits = if fits { "fits" } else { "does not fit" };
        let mut out = format!("\n{flags} {fits}: on each GPU\n");
        let _ = writeln!(out, "{}", row.memory);
        let gpus = self.settings.local_gpus() as u64;
        if row.memory.on_host() > 0 {
            let _ = writeln!(out, "on each host, for {gpus} GPUs");
            for (name, bytes) in row.memory.host_rows().into_iter().filter(|(_, bytes)| *bytes > 0) {
                let _ = writeln!(out, "  {name:<20} {:>12}", format_gib(bytes * gpus));
            }
        }
        if row.missing > 0.0 {
            let last_resort = "more GPUs, a shorter --max_length or a GPU with more memory";
            let advice = self.run(row.plan).advice((self.usable() * GIB) as u64, last_resort);
            let _ = writeln!(out, "{:.2} GiB are missing on each GPU; {advice}", row.missing);
        }
        if row.missing_on_host > 0.0 {
            let _ = writeln!(
                out,
                "{:.2} GiB are missing on each host; take more hosts, or offload less",
                row.missing_on_host
            );
        }
        let every = match self.settings.config.save_strategy {
            IntervalStrategy::Steps => format!("one in {} steps", self.settings.config.save_steps),
            IntervalStrategy::Epoch => "one an epoch, not in the step".to_owned(),
            IntervalStrategy::No => String::new(),
        };
        out + &row.time.text(&self.settings.workload, &every)
    }

    fn playing_text(&self) -> String {
        let playing = self.playing();
        format!(
            "\nplaying, each GPU on its own: weights {}, KV cache {} KiB per token, {} temporary; fits {} games of {} tokens\n\n",
            format_gib(playing.weights),
            playing.bytes_per_token / 1024,
            format_gib(playing.work),
            playing.games,
            self.settings.config.max_length
        )
    }
}

fn least_missing(rows: &[Row]) -> Option<&Row> {
    rows.iter().min_by(|a, b| a.missing.total_cmp(&b.missing))
}
