//! `spag bench train`: measures the speed of training, on one rank or several.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup};
use spag_io::{format_gib, gib};
use spag_model::checkpoint::{LoadOptions, load_config, load_model_with};
use spag_model::dtype::WeightDtype;
use spag_ops::OpenDevice;
use spag_selfplay::limits;
use spag_train::{
    Beside, Fitted, KeptBlocks, ModelShard, Placement, RankMemory, ShardWithin, ShardingPlan, ShardingRequest,
    StepTiming, TimingConfig, TrainConfig, ZeroStage, fit, median, peak_memory_of, time_steps_of_rank,
};

use super::card::card;
use super::simulated::SimulatedArgs;
use super::variants::Variant;
use super::{BATCH, STEPS, TOKENS, cpu_path, round};
use spag_cli::{DeviceArgs, Error, Result, exit, flags, threads};

/// Rounds of variants.
const ROUNDS: RangeInclusive<usize> = 1..=1000;
/// Bytes of all data.
const MAX_DATA: usize = 1 << 30;
/// Bytes of a sequence without its tokens.
const SEQUENCE_BYTES: usize = 128;

/// The flags of `spag bench train`.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct TrainArgs {
    /// The model: a Hugging Face folder or a GGUF file; its tokenizer is not needed.
    #[arg(long, value_name = "DIR")]
    model_name_or_path: PathBuf,
    /// Number of sequences in a micro-batch.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = flags::within(BATCH))]
    pub(super) batch: usize,
    /// Number of tokens in a sequence.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = flags::within(limits::LENGTH))]
    pub(super) seq: usize,
    /// Number of timed steps. Their median is printed.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = flags::within(STEPS))]
    steps: usize,
    /// Number of untimed steps before them.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = flags::within(0..=*STEPS.end()))]
    warmup: usize,
    /// Number of micro-batches in a step.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = flags::within(BATCH))]
    accumulation: usize,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = flags::within(flags::THREADS))]
    threads: usize,
    /// Add the forward pass of a frozen reference model and the KL term.
    #[arg(long = "ref")]
    reference: bool,
    /// Use activation checkpointing: recompute activations in the backward pass.
    #[arg(long)]
    pub(super) checkpointing: bool,
    /// With --checkpointing, the number of blocks whose activations are kept, or auto: as many as there is room for.
    #[arg(long, value_name = "K", default_value = "0")]
    pub(super) keep_activations: KeptBlocks,
    /// Number format of the parameters: float32 or bfloat16.
    #[arg(long, value_name = "TYPE", default_value = "float32")]
    dtype: WeightDtype,
    #[command(flatten)]
    device: DeviceArgs,
    /// What is split over the ranks: 0 nothing, 1 AdamW's state, 2 gradients too, 3 parameters too.
    #[arg(long, value_name = "STAGE", default_value = "0", help_heading = "Ranks")]
    zero_stage: ZeroStage,
    /// The ranks that it is split over: all, or host: those of each host.
    #[arg(long, value_name = "RANKS", default_value = "all", help_heading = "Ranks")]
    shard_within: ShardWithin,
    /// Where the parameters of ZeRO stage 3 are stored between their uses: none (on the device) or cpu (in host memory).
    #[arg(long, value_name = "PLACE", default_value = "none", help_heading = "Ranks")]
    offload_param: Placement,
    /// Where AdamW's state is stored if the model is on a GPU: none (on the device), cpu (in host memory), or auto, which is none if
    /// it fits.
    // The full path keeps clap from treating the type as an optional flag: `None` is the parsed `auto`.
    #[arg(long, value_name = "PLACE", default_value = "auto", value_parser = Placement::or_auto, help_heading = "Ranks")]
    pub(super) offload_optimizer: ::std::option::Option<Placement>,
    /// Number format in which AdamW gets gradients: float32 or bfloat16, in which half as many bytes are copied to a state in host
    /// memory.
    #[arg(long, value_name = "TYPE", default_value = "float32", help_heading = "Ranks")]
    pub(super) optim_grad_dtype: WeightDtype,
    #[command(flatten)]
    pub(super) simulated: SimulatedArgs,
    /// Variants to compare, separated by commas: each has a line of output. A variant is made of settings that replace the flags of
    /// the same purpose: keep, recompute, keep-K or keep-auto (activations of all blocks, of none, of K, of as many as fit),
    /// f32-gradients or bf16-gradients, state-on-device or state-on-host, and sequences and tokens such as 8x500; of simulated ranks
    /// also timed-links, links-in-turn (gathers do not overtake) and instant-links (collectives take no time); several are joined by
    /// +, as in recompute+2x2048.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Variants")]
    variants: Vec<Variant>,
    /// Number of rounds. Each times all variants in turn, and medians are those of all rounds' medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = flags::within(ROUNDS), requires = "variants", help_heading = "Variants")]
    rounds: usize,
    /// Seed of the tokens.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl TrainArgs {
    /// The settings on which memory depends.
    fn config(&self) -> TrainConfig {
        TrainConfig {
            per_device_train_batch_size: self.batch,
            max_length: self.seq,
            gradient_checkpointing: self.checkpointing,
            keep_activations: self.keep_activations,
            bf16: self.dtype == WeightDtype::Bf16,
            optim_grad_dtype: self.optim_grad_dtype,
            ..TrainConfig::default()
        }
    }

    /// What is split over the ranks, where it is stored, and the activations that are kept.
    fn plan(&self, env: &LaunchEnv, device: &OpenDevice) -> Result<Fitted> {
        self.config().check()?;
        let request = ShardingRequest {
            within: self.shard_within,
            ..ShardingRequest::new(Some(self.zero_stage), self.offload_optimizer, self.offload_param, None)?
        };
        let model = load_config(&self.model_name_or_path)?;
        Ok(fit(&model, &self.config(), request, self.simulated.ranks(env), Beside::default(), device)?)
    }
}

/// What is measured.
struct Measured {
    args: TrainArgs,
    plan: Fitted,
    /// One of each round.
    rounds: Vec<StepTiming>,
    /// The time of simulated links in the last round.
    link_seconds: f64,
}

pub(super) fn run(args: &TrainArgs) -> Result<()> {
    let env = LaunchEnv::detect()?;
    let device = args.device.open()?;
    let variants = match &args.variants[..] {
        [] => vec![args.clone()],
        variants => variants.iter().map(|variant| variant.of(args)).collect(),
    };
    let planned = |args: TrainArgs| {
        args.simulated.check(&env)?;
        check_size(&args, args.simulated.ranks(&env).0)?;
        let plan = args.plan(&env, &device)?;
        check_memory(&args, plan.sharding, &env, &device)?;
        Ok(Measured { args, plan, rounds: Vec::new(), link_seconds: 0.0 })
    };
    let mut all = variants.into_iter().map(planned).collect::<Result<Vec<_>>>()?;
    let group = spag_dist::join_on(&env, &JoinOptions::detect()?, device.device())?;
    for _ in 0..if args.variants.is_empty() { 1 } else { args.rounds } {
        for one in &mut all {
            let simulated = one.args.simulated.group(device.device())?;
            let group = simulated.clone().map_or_else(|| group.clone(), |group| group as Arc<dyn ProcessGroup>);
            one.rounds.push(measure(&one.args, one.plan, &device, group)?);
            one.link_seconds = simulated.map_or(0.0, |group| group.busy().as_secs_f64());
        }
    }
    if group.rank() > 0 {
        return Ok(());
    }
    let ranks = args.simulated.ranks(&env).0;
    let names = args.variants.iter().map(|variant| Some(&*variant.name)).chain([None]);
    all.iter().zip(names).try_for_each(|(one, name)| exit::say(line(one, name, &device, ranks)))
}

/// Rejects micro-batches and data that no device can hold, before anything is allocated. Every step of every rank has
/// sequences of its own.
fn check_size(args: &TrainArgs, ranks: usize) -> Result<()> {
    let bad = |problem: String| {
        let flag = format!("--batch {} --seq {}", args.batch, args.seq);
        Err(Error::BadValue { flag, problem })
    };
    let tokens = args.batch.saturating_mul(args.seq);
    if let Err(expected) = spag_io::in_range(tokens, TOKENS) {
        return bad(format!("{tokens} tokens in a micro-batch; {expected}"));
    }
    let sequences =
        [args.accumulation, args.steps + args.warmup, ranks].into_iter().fold(args.batch, usize::saturating_mul);
    let bytes = sequences.saturating_mul(SEQUENCE_BYTES + size_of::<u32>() * args.seq);
    if bytes > MAX_DATA {
        let most = format_gib(MAX_DATA as u64);
        return bad(format!(
            "the {sequences} sequences of all steps and ranks take {}, more than {most}",
            format_gib(bytes as u64)
        ));
    }
    Ok(())
}

/// Rejects steps that take more memory than is free on this machine. For a GPU the plan has been checked.
fn check_memory(args: &TrainArgs, plan: ShardingPlan, env: &LaunchEnv, device: &OpenDevice) -> Result<()> {
    if !device.device().is_cpu() {
        return Ok(());
    }
    let model = load_config(&args.model_name_or_path)?;
    let (ranks, local) = args.simulated.ranks(env);
    let memory = RankMemory::on_cpu(&model, &args.config(), plan, plan.shards(ranks, local));
    let (needed, free) = (memory.on_device(), device.memory()?.free);
    if needed <= free {
        return Ok(());
    }
    let flag = format!("--batch {} --seq {}", args.batch, args.seq);
    let problem = format!("a step takes {}, and {} are free", format_gib(needed), format_gib(free));
    Err(Error::BadValue { flag, problem })
}

/// Times the steps of this rank of `group`.
fn measure(args: &TrainArgs, plan: Fitted, device: &OpenDevice, group: Arc<dyn ProcessGroup>) -> Result<StepTiming> {
    let timing = TimingConfig {
        batch: args.batch,
        seq: args.seq,
        steps: args.steps,
        warmup: args.warmup,
        vocab_size: load_config(&args.model_name_or_path)?.architecture.vocab_size,
        seed: args.seed,
        activations: plan.activations,
        accumulation: args.accumulation,
        optim_grad_dtype: args.optim_grad_dtype,
    };
    let options = LoadOptions { device: device.device().clone(), dtype: args.dtype };
    if args.reference && group.size() > 1 {
        let problem = "the reference pass is timed on one rank only; leave the flag out".into();
        return Err(Error::BadValue { flag: "--ref".into(), problem });
    }
    threads::run_on(args.threads, || -> Result<_> {
        let reference = args.reference.then(|| load_model_with(&args.model_name_or_path, &options)).transpose()?;
        let shard =
            ModelShard { dir: &args.model_name_or_path, adapter: None, options: &options, plan: plan.sharding, group };
        Ok(time_steps_of_rank(shard, reference, &timing)?)
    })
}

/// The line of output for a step of `ranks` ranks.
fn line(measured: &Measured, variant: Option<&str>, device: &OpenDevice, ranks: usize) -> Value {
    let Measured { args, plan, rounds, link_seconds } = measured;
    let seconds = median(rounds.iter().map(|round| round.seconds).collect()).unwrap_or(f64::NAN);
    // Each round has measured the same steps.
    let Some(step) = rounds.last() else { return Value::Null };
    let tokens = (args.batch * args.accumulation * args.seq * ranks) as f64;
    let passes = if args.reference { 8.0 } else { 6.0 };
    let flops = passes * step.parameters as f64 * tokens / seconds;
    // The process has one peak, that of all variants.
    let peak = if variant.is_none() { peak_memory_of(device.device()) } else { None };
    json!({
        "what": "spag train step",
        "variant": variant,
        "params": step.parameters,
        "seconds": round(seconds, 5),
        "tokens_per_s": round(tokens / seconds, 1),
        "model_tflops": round(flops / 1e12, 3),
        "peak_gib": peak.map(|bytes| round(gib(bytes), 2)),
        "kernels_per_step": step.launched.kernels,
        "products_per_step": step.launched.products,
        "card": card(device),
        "loss": round(step.loss, 4),
        "checkpoint": args.model_name_or_path,
        "device": device.to_string(),
        "dtype": args.dtype.to_string(),
        "batch": args.batch,
        "seq": args.seq,
        "steps": args.steps,
        "warmup": args.warmup,
        "threads": args.threads,
        "ref": args.reference,
        "checkpointing": args.checkpointing,
        "kept_blocks": plan.activations.kept(),
        "accumulation": args.accumulation,
        "ranks": ranks,
        "zero_stage": plan.sharding.stage.number(),
        "shard_within": plan.sharding.within.to_string(),
        "offload_optimizer": plan.sharding.optimizer.to_string(),
        "offload_param": plan.sharding.parameters.to_string(),
        "optim_grad_dtype": args.optim_grad_dtype.to_string(),
        "bytes_sent_per_step": step.traffic.sent,
        "bytes_sent_between_hosts_per_step": step.traffic.sent_between_hosts,
        "cpu_path": cpu_path(device),
        "simulated": args.simulated.line(link_seconds / (args.steps + args.warmup) as f64),
    })
}
