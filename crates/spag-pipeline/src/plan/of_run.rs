//! `spag run --plan`: stages, memory, tokens, hours and disk of a run.

use std::fmt::Write as _;

use crate::{
    ImitationSource, MissingInput, OnlineMemory, PlannedTraining, RunConfig, RunMeasure, RunPlan, SAMPLES_PER_GAME,
    measure_run, plan_run_without,
};
use spag_io::duration;
use spag_io::{escape, folder_size, format_gib, free_disk, gib};
use spag_model::ModelConfig;
use spag_model::checkpoint::load_config;
use spag_model::dtype::{DtypeChoice, WeightDtype};
use spag_model::generate::{GenerationMemory, Processor};
use spag_model::params::Layout;
use spag_model::rate::measured_flops;
use spag_selfplay::text_table;
use spag_train::{RankMemory, ShardingPlan};

use super::assumptions::Assumptions;
use super::report::{Report, Row};
use super::run_time::UTTERANCES;
use super::settings::Settings;
use super::workload::PlannedSamples;
use crate::config::{Figures, Gpu};
use crate::error::Result;

/// Tokens of a game when half of it is played, with its rules: an assumption.
pub(super) const CONTEXT: f64 = 700.0;

/// The text of `spag run --plan`. `missing` are inputs that are not there yet ([`RunConfig::load_to_plan`]). The speed of a plan for this
/// machine is measured.
///
/// # Errors
/// Inputs that cannot be read, or settings of the hardware or of sharding that contradict each other.
pub fn plan_of_run(config: &RunConfig, missing: &[MissingInput]) -> Result<String> {
    let gpu = config.hardware.machine.gpu.and_then(Gpu::figures);
    let ranks = config.hardware.machine.gpus.unwrap_or(1);
    let plan = plan_run_without(config, missing, ranks)?;
    let model = load_config(&config.base_model)?;
    let processor = if gpu.is_some() { Processor::Gpu } else { Processor::Cpu };
    let online = config.online.as_ref().map(|online| OnlineMemory::new(config, online, &model, ranks, processor));
    let cpu_flops = if gpu.is_none() { Some(measured_flops(&model)?) } else { None };
    // What is missing cannot be measured.
    let measure = match cpu_flops.filter(|_| missing.is_empty()) {
        Some(flops) => measure_run(config, flops)?,
        None => None,
    };
    let planner = Planner { config, model: &model, gpu, cpu_flops, measure, ranks, online };
    let mut out = missing_inputs(missing);
    out.push_str(&planner.head(&plan));
    out.push_str(&planner.stages(&plan)?);
    out.push_str(&planner.memory(&plan)?);
    out.push_str(&planner.on_policy(&plan)?);
    out.push_str(&disk(config, &plan));
    out.push_str(&planner.assumptions());
    Ok(out)
}

/// What has to be there before the run can start.
fn missing_inputs(missing: &[MissingInput]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = missing.iter().map(|input| format!("  {}\n", escape(&input.to_string()))).collect();
    format!(
        "{} INPUTS ARE MISSING; the run needs them, the plan assumes their rows ([hardware])\n{}\n",
        missing.len(),
        lines.concat()
    )
}

pub(super) struct Planner<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) model: &'a ModelConfig,
    /// `None` is a CPU.
    pub(super) gpu: Option<Figures>,
    /// FLOP/s of this machine, if it is planned for.
    pub(super) cpu_flops: Option<f64>,
    /// What games and training take on this machine, if it is planned for and they could be measured.
    pub(super) measure: Option<RunMeasure>,
    pub(super) ranks: usize,
    /// What is beside the learner of an on-policy run.
    pub(super) online: Option<OnlineMemory>,
}

impl Planner<'_> {
    fn head(&self, plan: &RunPlan) -> String {
        let device = self.gpu.map_or("CPU", |gpu| gpu.name);
        let held_out = if plan.held_out > 0 { format!(", {} held out", plan.held_out) } else { String::new() };
        format!(
            "{}: {:.1} million parameters, {} × {device}\n{} words to train on{held_out}\n\n",
            escape(&self.config.base_model.display().to_string()),
            Layout::new(&self.model.architecture).len() as f64 / 1e6,
            self.ranks,
            plan.words,
        )
    }

    /// The table of stages. Times are estimates if they were measured, else bounds by the hardware's peaks, for samples of the
    /// maximum length.
    fn stages(&self, plan: &RunPlan) -> Result<String> {
        let is_measured = self.measure.is_some();
        let mut header = vec!["stage", "parts", "games", "samples", "steps", "Mtokens played", "Mtokens trained"];
        header.extend(if is_measured { ["min play", "min train"] } else { ["h play ≥", "h train ≥"] });
        let unit = if is_measured { 60.0 } else { 3600.0 };
        let shown = |seconds: Option<f64>| number(seconds.map(|seconds| seconds / unit));
        let (mut rows, mut played, mut trained) = (Vec::new(), 0.0, 0.0);
        for stage in &plan.stages {
            let count = |count: usize| if count > 0 { count.to_string() } else { "–".to_owned() };
            let training = stage.training.as_ref();
            let tokens = stage.games as f64 * self.utterances() * self.utterance_tokens();
            // Scripted and random players take no time to speak of.
            let is_free = stage.name == "im" && !self.config.imitation.source.any(ImitationSource::plays_a_model);
            let play = if is_free { None } else { self.seconds_of_play(stage.games, tokens) };
            let train = self.seconds_of_training(stage)?;
            played += play.unwrap_or(0.0);
            trained += train.unwrap_or(0.0);
            rows.push(vec![
                stage.name.clone(),
                stage.parts.join(", "),
                count(stage.games),
                training.map_or("–".to_owned(), |training| count(training.samples)),
                training.map_or("–".to_owned(), |training| count(training.steps)),
                number(Some(tokens / 1e6).filter(|tokens| *tokens > 0.0)),
                number(self.trained_tokens(stage).map(|tokens| tokens / 1e6)),
                shown(play.filter(|seconds| *seconds > 0.0)),
                shown(train),
            ]);
        }
        let mut total = vec!["together".to_owned()];
        total.extend(std::iter::repeat_n(String::new(), 6));
        total.extend([shown(Some(played)), shown(Some(trained))]);
        rows.push(total);
        let all = [played + trained, played, trained];
        let times = if is_measured {
            let [all, played, trained] = all.map(duration);
            format!("\nabout {all} in all: {played} of playing and {trained} of training\n")
        } else {
            let [all, played, trained] = all.map(|seconds| number(Some(seconds / 3600.0)));
            format!("\nat least {all} hours in all: {played} of playing and {trained} of training\n")
        };
        Ok(text_table(&header, &rows) + &times)
    }

    /// Games of `both` tokens whose keys and values fit on a GPU beside the weights; `None` on a CPU.
    fn games_that_fit(&self, both: usize) -> Option<u64> {
        let (figures, dtype) = (self.gpu?, self.playing_dtype());
        let gib = self.config.hardware.machine.gpu_memory.unwrap_or(figures.memory_gib);
        let bytes = ((gib - Assumptions::new(self.network()).driver_gib) * (1u64 << 30) as f64) as u64;
        let weights = Layout::new(&self.model.architecture).len() as u64 * dtype.bytes() as u64;
        let game = both as u64 * GenerationMemory::per_token(self.model, dtype);
        Some(bytes.saturating_sub(weights) / game.max(1))
    }

    /// The number format of playing: on a GPU bf16 unless f32 was asked for.
    pub(super) fn playing_dtype(&self) -> WeightDtype {
        match (self.config.self_play.dtype, self.gpu) {
            (DtypeChoice::Fixed(dtype), _) => dtype,
            (DtypeChoice::Auto, Some(_)) => WeightDtype::Bf16,
            (DtypeChoice::Auto, None) => WeightDtype::F32,
        }
    }

    pub(super) fn network(&self) -> f64 {
        self.config.hardware.machine.network.unwrap_or(200.0)
    }

    /// The plan of a training on the GPUs; `None` on a CPU.
    pub(super) fn choice(&self, training: &PlannedTraining) -> Result<Option<Row>> {
        let Some(settings) = self.settings(training)? else { return Ok(None) };
        let online = self.online.as_ref().filter(|_| training.on_policy);
        Ok(Report::new(self.model, &settings).with_online(online).choice())
    }

    /// The settings of a training on the GPUs; `None` on a CPU.
    pub(super) fn settings(&self, training: &PlannedTraining) -> Result<Option<Settings>> {
        if self.gpu.is_none() {
            return Ok(None);
        }
        let mut training = training.settings.clone();
        if training.job.zero_stage.is_none() {
            (training.job.offload_optimizer, training.job.offload_param) = (None, None);
        }
        let machine = self.config.hardware.machine;
        let (settings, _) =
            Settings::new(self.config.base_model.clone(), machine, training, &PlannedSamples::default())?;
        Ok(Some(settings))
    }

    /// What a rank needs to train and to play.
    fn memory(&self, plan: &RunPlan) -> Result<String> {
        let mut out = String::from("\nMemory of each rank\n\n");
        let mut seen = Vec::new();
        for stage in &plan.stages {
            // An on-policy run has a table of its own.
            let Some(training) = stage.training.as_ref().filter(|training| !training.on_policy) else { continue };
            if seen.contains(&&training.settings) {
                continue;
            }
            seen.push(&training.settings);
            let text = match self.choice(training)? {
                Some(row) => {
                    let lacks = match row.lacks() {
                        0.0 => String::new(),
                        missing => format!("; {missing:.2} GiB ARE MISSING, see `spag plan` for what helps"),
                    };
                    format!(
                        "{} on each GPU, {} on each host with {}{lacks}",
                        format_gib(row.memory.on_device()),
                        format_gib(row.host_bytes),
                        row.plan.flags()
                    )
                }
                None => {
                    let plan = ShardingPlan {
                        stage: training.settings.job.zero_stage.unwrap_or_default(),
                        within: training.settings.job.shard_within.unwrap_or_default(),
                        ..ShardingPlan::default()
                    };
                    format_gib(self.on_cpu(training, plan).on_device())
                }
            };
            let _ = writeln!(out, "  training {:<12} {text}", stage.name);
        }
        let dtype = self.playing_dtype();
        let parameters = Layout::new(&self.model.architecture).len() as u64;
        let settings = &self.config.self_play;
        let both = self.config.max_play_length(self.model);
        let cache = (settings.games_in_flight() * both) as u64 * GenerationMemory::per_token(self.model, dtype);
        let _ = writeln!(
            out,
            "  playing               weights {}, KV cache up to {} for {} games of {both} tokens; {}",
            format_gib(parameters * dtype.bytes() as u64),
            format_gib(cache),
            settings.games_in_flight(),
            match self.games_that_fit(both) {
                Some(games) => format!("{games} games of this length fit, others wait"),
                None => "more games than fit wait".to_owned(),
            },
        );
        let _ = writeln!(
            out,
            "  evaluation            two models: weights {}",
            format_gib(2 * parameters * dtype.bytes() as u64)
        );
        Ok(out)
    }

    /// The memory of a rank that trains on CPUs.
    pub(super) fn on_cpu(&self, training: &PlannedTraining, plan: ShardingPlan) -> RankMemory {
        let of = if training.on_policy { RankMemory::on_cpu_exact } else { RankMemory::on_cpu };
        let further = self.online.as_ref().filter(|_| training.on_policy).map_or(0, OnlineMemory::further_adapters);
        let local = self.config.hardware.machine.gpus_per_node.unwrap_or(8);
        of(self.model, &training.settings, plan, plan.shards(self.ranks, local)).with_further_adapters(further)
    }

    fn assumptions(&self) -> String {
        if let Some(measure) = self.measure {
            let per_second = |seconds: f64| 1.0 / seconds.max(1e-9);
            return format!(
                "\ncounted in games to imitate: {:.1} utterances of {:.0} tokens and {:.1} samples of {:.0} tokens a game\nmeasured \
                 just now with the base model: {:.0} utterances/s of play, {:.0} tokens/s of training; models that play otherwise, other \
                 work on this machine and benchmarks, which are not counted, change the times\n",
                measure.utterances,
                measure.utterance_tokens,
                measure.samples,
                measure.sample_tokens,
                per_second(measure.seconds_per_utterance),
                per_second(measure.seconds_per_token),
            );
        }
        let mut out = format!(
            "\nassumed: {SAMPLES_PER_GAME} samples and {UTTERANCES:.0} utterances of {:.0} tokens a game\n",
            self.utterance_tokens()
        );
        match self.gpu {
            Some(_) => {
                let assumed = Assumptions::new(self.network());
                let _ = writeln!(
                    out,
                    "{}\nassumed: every sample has max_length tokens\nhours of playing are a bound by memory bandwidth at {CONTEXT:.0} \
                     tokens of context, without prompts; benchmarks are not counted",
                    assumed.lines().join("\n"),
                );
            }
            None => {
                let _ = writeln!(
                    out,
                    "assumed: every sample has max_length tokens; the products of all tokens at the {:.0} GFLOP/s in f32 that this \
                     machine reached just now, without attention, prompts and benchmarks; hardware.gpu plans for GPUs\nmeasured: \
                     `spag bench train` and `spag bench play` time steps and games on this machine",
                    self.cpu_flops.unwrap_or_default() / 1e9
                );
            }
        }
        out
    }
}

fn disk(config: &RunConfig, plan: &RunPlan) -> String {
    let disk = &plan.disk;
    let existing = folder_size(&config.run_dir);
    let free = free_disk(&config.run_dir);
    let needed = disk.total().saturating_sub(existing);
    let verdict = match free {
        Some(free) if free < needed => format!("TOO LITTLE: {} are free", format_gib(free)),
        Some(free) => format!("{:.0} GiB are free", gib(free)),
        None => "the file system does not tell what is free".to_owned(),
    };
    format!(
        "\nDisk in {}: models {}, checkpoints {}, games, samples and caches {}; {} are there already; {verdict}\n",
        escape(&config.run_dir.display().to_string()),
        format_gib(disk.models),
        format_gib(disk.checkpoints),
        format_gib(disk.texts),
        format_gib(existing.min(disk.total())),
    )
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value < 0.1 => format!("{value:.3}"),
        Some(value) => format!("{value:.1}"),
    }
}
