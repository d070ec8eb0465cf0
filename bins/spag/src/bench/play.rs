//! `spag bench play`: measures the speed of self-play.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use spag_io::gib;
use spag_model::EngineConfig;
use spag_model::generate::EngineSettings;
use spag_ops::kernels::SumOrder;
use spag_selfplay::{SamplingSettings, TimingConfig, time_play};
use spag_train::peak_memory_of;

use super::{cpu_path, order_name, round, sum_order};
use spag_cli::{AdapterArgs, LoadArgs, PromptArgs, Result, exit, flags, threads};

/// The flags of `spag bench play`.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct PlayArgs {
    /// The model: a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    adapter: AdapterArgs,
    #[command(flatten)]
    work: TimingConfig,
    #[command(flatten)]
    sampling: SamplingSettings,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = flags::within(flags::THREADS))]
    threads: usize,
    /// The order in which a GPU adds: any, or fixed, which is that of `online.exact`.
    #[arg(long, value_name = "ORDER", default_value = "any", value_parser = sum_order)]
    sum_order: SumOrder,
    #[command(flatten)]
    prompts: PromptArgs,
    #[command(flatten)]
    engine: EngineSettings,
    #[command(flatten)]
    loading: LoadArgs,
}

pub(super) fn run(args: &PlayArgs) -> Result<()> {
    let checkpoint = args.loading.load_adapted(&args.model, args.adapter.folder())?;
    let prompts = args.prompts.load()?;
    let model = checkpoint.model.config().clone();
    let engine = args.engine.for_model(&checkpoint.model, model.architecture.max_position_embeddings, 1)?;
    let engine = EngineConfig { sum_order: args.sum_order, ..engine };
    let timing = threads::run_on(args.threads, || {
        time_play(&checkpoint, &prompts, engine, args.sampling.sampling(), args.work)
    })?;
    let (stats, times) = (timing.stats, timing.stats.times);
    // Every computed token passes the blocks; every new token passes the head too.
    let architecture = &model.architecture;
    let embedding = architecture.vocab_size * architecture.hidden_size;
    let head = if architecture.is_tied() { 0 } else { embedding };
    let blocks = checkpoint.model.parameters().layout().len() - embedding - head;
    let linear = 2.0 * (blocks as f64 * stats.computed_tokens as f64 + embedding as f64 * stats.new_tokens as f64);
    let attention =
        4.0 * (architecture.num_hidden_layers * architecture.query_size()) as f64 * stats.attended_keys as f64;
    let token_bytes = EngineConfig::bytes_per_token(&model, checkpoint.model.parameters().dtype().bytes());
    let kv_bytes = token_bytes as f64 * stats.attended_keys as f64;
    let seconds = |time: std::time::Duration| round(time.as_secs_f64(), 3);
    exit::say(json!({
        "what": "spag self-play",
        "seconds": round(timing.seconds, 3),
        "games_per_s": round(args.work.games as f64 / timing.seconds, 4),
        "generated_tokens_per_s": round(stats.new_tokens as f64 / timing.seconds, 2),
        "checkpoint": args.model,
        "device": args.loading.open()?.to_string(),
        "cpu_path": cpu_path(&args.loading.open()?),
        "dtype": checkpoint.model.parameters().dtype().to_string(),
        "quantize": checkpoint.model.quantisation().map(|quantisation| quantisation.to_string()),
        "games": args.work.games,
        "batch": engine.max_running,
        "sum_order": order_name(engine.sum_order),
        "turns": args.work.turns,
        "new_tokens": args.work.new_tokens,
        "threads": args.threads,
        "prompt_tokens": stats.prompt_tokens,
        "hit_rate": round(stats.hit_rate(), 4),
        "computed_tokens": stats.computed_tokens,
        "recomputed_tokens": stats.recomputed_tokens,
        "preemptions": stats.preemptions,
        "steps": stats.steps,
        "seconds_in": {
            "prefill": seconds(times.prefill),
            "decode": seconds(times.decode),
            "attention (part of these)": seconds(times.attention),
            "sampling": seconds(times.sampling),
            "tokenizer": seconds(times.tokenizer),
            "schedule": seconds(times.schedule),
            "referee and prompts": seconds(timing.outside),
        },
        "linear_gflop": round(linear / 1e9, 1),
        "attention_gflop": round(attention / 1e9, 1),
        "kv_gb_if_never_shared": round(kv_bytes / 1e9, 1),
        "kv_cache_gib": round(gib((engine.pages * engine.page_size * token_bytes) as u64), 2),
        "peak_gib": peak_memory_of(checkpoint.model.parameters().device()).map(|bytes| round(gib(bytes), 2)),
    }))
}
