//! `spag bench generate`: measures prefill and decode.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use spag_io::gib;
use spag_model::generate::{EngineSettings, EosRule, Event, Streamed};
use spag_model::{Engine, EngineConfig, Generate, GenerationConfig, Request};
use spag_ops::CpuPath;
use spag_ops::kernels::SumOrder;
use spag_selfplay::limits;
use spag_train::{median, peak_memory_of};

use super::{BATCH, STEPS, cpu_path, order_name, round, sum_order};
use spag_cli::{AdapterArgs, Error, LoadArgs, Result, exit, flags, threads};

/// The flags of `spag bench generate`.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct GenerateArgs {
    /// The model: a Hugging Face folder or a GGUF file.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    adapter: AdapterArgs,
    /// Number of tokens in each prompt, which are random and shared by no two prompts.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = flags::within(limits::LENGTH))]
    prompt: usize,
    /// Number of tokens that each prompt is completed with, at least 2. No completion ends early.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = flags::within(2..=*limits::NEW_TOKENS.end()))]
    new_tokens: usize,
    /// Numbers of concurrent prompts, separated by commas: a case and a line of output each.
    #[arg(long, value_name = "N,…", default_value = "1,32", value_delimiter = ',', value_parser = flags::within(BATCH))]
    batch: Vec<usize>,
    /// Orders in which a GPU adds, separated by commas: any, or fixed, which is that of `online.exact`. Each has a line of output for
    /// each case; named twice, it is measured twice.
    #[arg(long, value_name = "ORDER,…", default_value = "any", value_delimiter = ',', value_parser = sum_order)]
    sum_order: Vec<SumOrder>,
    /// Number of timed rounds. Their median is printed.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = flags::within(STEPS))]
    rounds: usize,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = flags::within(flags::THREADS))]
    threads: usize,
    /// Seed of the prompts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    loading: LoadArgs,
}

pub(super) fn run(args: &GenerateArgs) -> Result<()> {
    let cases = args.batch.iter().flat_map(|batch| args.sum_order.iter().map(move |order| (*batch, *order)));
    cases.into_iter().try_for_each(|(batch, order)| case(args, batch, order))
}

/// Tokens per second of one case.
struct Speed {
    prefill: f64,
    decode: f64,
}

/// Measures one batch size with one order of sums, and prints its line.
fn case(args: &GenerateArgs, batch: usize, sum_order: SumOrder) -> Result<()> {
    let checkpoint = args.loading.load_adapted(&args.model, args.adapter.folder())?;
    let device = checkpoint.model.parameters().device().clone();
    let (model, dtype) = (checkpoint.model.config().clone(), checkpoint.model.parameters().dtype());
    let quantize = checkpoint.model.quantisation().map(|quantisation| quantisation.to_string());
    let positions = model.architecture.max_position_embeddings;
    let length = args.prompt.saturating_add(args.new_tokens);
    if length > positions {
        let problem = format!("with --new_tokens {} it is longer than the {positions} positions", args.new_tokens);
        return Err(Error::BadValue { flag: format!("--prompt {}", args.prompt), problem });
    }
    let settings = EngineSettings { max_running: Some(batch), ..EngineSettings::default() };
    let engine = EngineConfig { sum_order, ..settings.for_model(&checkpoint.model, length, 1)? };
    let pages = batch.saturating_mul(length.div_ceil(engine.page_size));
    if engine.pages < pages {
        let problem = format!("{pages} pages of the KV cache are needed, and {} fit into the memory", engine.pages);
        return Err(Error::BadValue { flag: format!("--batch {batch}"), problem });
    }
    let measured =
        threads::run_on(args.threads, || measure(args, Engine::from_checkpoint(checkpoint, engine)?, batch))?;
    let token_bytes = EngineConfig::bytes_per_token(&model, dtype.bytes());
    exit::say(json!({
        "what": "spag generation",
        "batch": batch,
        "sum_order": order_name(sum_order),
        "prefill_tokens_per_s": round(measured.prefill, 1),
        "decode_tokens_per_s": round(measured.decode, 2),
        "prompt": args.prompt,
        "new_tokens": args.new_tokens,
        "peak_gib": peak_memory_of(&device).map(|bytes| round(gib(bytes), 2)),
        "kv_cache_gib": round(gib((engine.pages * engine.page_size * token_bytes) as u64), 2),
        "kernels": if device.is_cpu() { CpuPath::selected()?.name() } else { "cuda" },
        "dtype": dtype.to_string(),
        "quantize": quantize,
        "device": args.loading.open()?.to_string(),
        "cpu_path": cpu_path(&args.loading.open()?),
        "checkpoint": args.model,
        "rounds": args.rounds,
        "threads": args.threads,
    }))
}

/// The medians of the rounds, after one that is not timed.
fn measure(args: &GenerateArgs, mut engine: Engine, batch: usize) -> Result<Speed> {
    let vocab_size = engine.tokenizer().vocab_size() as u32;
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    for timed in 0..=args.rounds {
        let mut prompts = || -> Vec<Vec<u32>> {
            (0..batch).map(|_| (0..args.prompt).map(|_| rng.random_range(0..vocab_size)).collect()).collect()
        };
        // Prompts alone, so that no pass has tokens of both kinds; then again, from the cache, so that all begin to decode in
        // one pass and all passes have the whole batch.
        let prompts = prompts();
        let began = Instant::now();
        let times = generate(&mut engine, prompts.clone(), 1)?;
        let filled = (times.first - began).as_secs_f64();
        let times = generate(&mut engine, prompts, args.new_tokens)?;
        if timed > 0 {
            prefill.push((batch * args.prompt) as f64 / filled);
            decode.push(times.later as f64 / (times.last - times.first).as_secs_f64().max(1e-9));
        }
    }
    if let Some(reason) = engine.capture_failure() {
        exit::note(format_args!("decoding without CUDA graphs: {reason}"));
    }
    // There is a round at least.
    let median = |speeds| median(speeds).unwrap_or(f64::NAN);
    Ok(Speed { prefill: median(prefill), decode: median(decode) })
}

/// When tokens were generated.
struct Times {
    /// When every request had its first token.
    first: Instant,
    last: Instant,
    /// Tokens between both.
    later: usize,
}

/// Completes prompts with `new_tokens` greedy tokens each.
fn generate(engine: &mut Engine, prompts: Vec<Vec<u32>>, new_tokens: usize) -> Result<Times> {
    let config = Arc::new(GenerationConfig {
        max_new_tokens: new_tokens,
        eos: EosRule::Ignored,
        stream: Streamed::Text,
        ..GenerationConfig::default()
    });
    let mut waiting = std::collections::HashSet::new();
    for (seed, prompt) in (0..).zip(prompts) {
        waiting.insert(engine.submit(Request { prompt: prompt.into(), seed, config: config.clone() })?);
    }
    let (mut first, mut later) = (Instant::now(), 0);
    while engine.unfinished() > 0 {
        let all_began = waiting.is_empty();
        for (request, event) in engine.step()? {
            match event {
                Event::Token(_) if all_began => later += 1,
                Event::Token(_) => _ = waiting.remove(&request),
                Event::Failed(error) => return Err(error.into()),
                Event::Prompt(_) | Event::Finished(_) => {}
            }
        }
        if !all_began {
            first = Instant::now();
        }
    }
    Ok(Times { first, last: Instant::now(), later })
}
