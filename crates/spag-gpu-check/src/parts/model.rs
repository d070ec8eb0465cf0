//! Benchmarks of the 7B model: training, generation and self-play.

use std::sync::Arc;
use std::time::Instant;

use candle_core::Device;
use serde_json::{Value, json};
use spag_game::PromptSet;
use spag_gpu_check::{Row, bench};
use spag_io::format_gib;
use spag_model::{
    Activations, Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, LoadOptions, MemoryBudget, ModelConfig,
    PrefixSharing, Request, Sampling, WeightDtype, WriteOptions, free_memory, load_model_with, load_tokenizer,
    peak_device_memory, write_random_model,
};
use spag_train::{RankMemory, ShardingPlan, TrainConfig};

use super::{Error, Settings, Sink};

/// Creates the model's folder with random weights and the fixtures' tokenizer, if missing.
pub(super) fn make(settings: &Settings) -> Result<(), Error> {
    if settings.checkpoint.join("config.json").exists() {
        return Ok(());
    }
    let config = ModelConfig::from_file(&settings.config)?;
    let tokenizer = load_tokenizer(settings.fixtures.join("tiny-llama"))?;
    write_random_model(&config, 0, Some(&tokenizer), &settings.checkpoint, WriteOptions::new(WeightDtype::Bf16))?;
    Ok(())
}

fn row(part: &str, what: String, result: String, numbers: Value) -> Row {
    Row { part: part.into(), what, result, numbers, passed: None }
}

/// Times steps with and without activation checkpointing, if they fit.
pub(super) fn train(settings: &Settings, device: &Device, sink: Sink<'_>) -> Result<(), Error> {
    make(settings)?;
    let config = ModelConfig::from_file(settings.checkpoint.join("config.json"))?;
    let ceiling = bench::ceilings(device)?.matmul_tflops;
    for activations in [Activations::Recompute, Activations::Keep] {
        for accumulation in [1, 8] {
            sink(steps(settings, device, &config, (activations, accumulation), ceiling)?);
        }
    }
    Ok(())
}

fn steps(
    settings: &Settings,
    device: &Device,
    config: &ModelConfig,
    (activations, accumulation): (Activations, usize),
    ceiling: f64,
) -> Result<Row, Error> {
    let (batch, seq, dtype) = (settings.batch, settings.seq, WeightDtype::Bf16);
    let recompute = activations == Activations::Recompute;
    let how = if recompute { ", recomputation" } else { "" };
    let what = format!("step of {batch} × {seq} × {accumulation}{how}");
    let training = TrainConfig {
        per_device_train_batch_size: batch,
        max_length: seq,
        bf16: dtype == WeightDtype::Bf16,
        gradient_checkpointing: recompute,
        ..TrainConfig::default()
    };
    let planned = RankMemory::on_gpu(config, &training, ShardingPlan::default(), 1).on_device();
    let free = free_memory(device)?.free;
    if planned > free {
        let why = format!("left out: it needs {}, {} are free", format_gib(planned), format_gib(free));
        return Ok(row("train", what, why, json!({ "planned_bytes": planned, "free_bytes": free })));
    }
    let timing = spag_train::TimingConfig {
        batch,
        seq,
        steps: 3,
        warmup: 1,
        vocab_size: config.architecture.vocab_size,
        seed: 0,
        gradient_checkpointing: recompute,
        accumulation,
    };
    let options = LoadOptions { device: device.clone(), dtype };
    let load = || -> Result<_, Error> { Ok(load_model_with(&settings.checkpoint, &options)?) };
    let timed = spag_train::time_steps(load, None, &timing)?;
    let tokens_per_s = (batch * seq * accumulation) as f64 / timed.seconds;
    let tflops = 6.0 * timed.parameters as f64 * tokens_per_s / 1e12;
    let peak = peak_device_memory(device)?.unwrap_or(0);
    let result = format!(
        "{tokens_per_s:.0} tokens/s, {tflops:.0} TFLOP/s ({:.0}% of the product's rate), peak {} (planned {})",
        100.0 * tflops / ceiling,
        format_gib(peak),
        format_gib(planned)
    );
    let numbers = json!({
        "seconds": timed.seconds, "tokens_per_s": tokens_per_s, "model_tflops": tflops, "matmul_tflops": ceiling,
        "peak_bytes": peak, "planned_bytes": planned, "loss": timed.loss,
    });
    Ok(row("train", what, result, numbers))
}

/// Context length of the decode benchmark.
const CONTEXT: usize = 700;
/// Timed decode steps.
const STEPS: usize = 32;

/// Times prefill, and decode steps of full batches at a context of about [`CONTEXT`] tokens.
pub(super) fn decode(settings: &Settings, device: &Device, sink: Sink<'_>) -> Result<(), Error> {
    make(settings)?;
    let options = LoadOptions { device: device.clone(), dtype: WeightDtype::Bf16 };
    let checkpoint = Checkpoint::load_with(&settings.checkpoint, &options)?;
    let ceiling = bench::ceilings(device)?.copy_gb_per_s;
    for batch in [1, 16, 64, 128] {
        sink(decoding(&checkpoint, batch, ceiling)?);
    }
    Ok(())
}

/// A unique text of at least `tokens` tokens.
fn text(checkpoint: &Checkpoint, number: usize, tokens: usize) -> Result<String, Error> {
    let mut text = format!("{number}: ");
    while checkpoint.tokenizer.encode(&text)?.len() < tokens {
        text.push_str("a horse and a cart went over the hill, ");
    }
    Ok(text)
}

fn decoding(checkpoint: &Checkpoint, batch: usize, ceiling: f64) -> Result<Row, Error> {
    let model = checkpoint.model.config();
    let memory = MemoryBudget::for_model(&checkpoint.model)?;
    let length = CONTEXT + 2 * STEPS;
    let setting = EngineConfig {
        max_step_tokens: 2048,
        prefix_sharing: PrefixSharing::Off,
        ..EngineConfig::with_max_length(model, batch, length, memory)
    };
    let mut engine = Engine::new(checkpoint, setting)?;
    let new = 2 * STEPS;
    let config = Arc::new(GenerationConfig { max_new_tokens: new, min_new_tokens: new, ..GenerationConfig::default() });
    let prompt = CONTEXT - STEPS;
    for number in 0..batch {
        let prompt = text(checkpoint, number, prompt)?;
        engine.submit(Request { prompt: prompt.into(), seed: number as u64, config: config.clone() })?;
    }
    let prompts = engine.stats().prompt_tokens as f64;
    let began = Instant::now();
    // A step with at most one token per sequence has no prompt in it.
    loop {
        let before = engine.stats().computed_tokens;
        engine.step()?;
        if engine.stats().computed_tokens - before <= batch as u64 {
            break;
        }
    }
    let prefill = prompts / began.elapsed().as_secs_f64();
    let (began, before) = (Instant::now(), engine.stats());
    for _ in 0..STEPS {
        engine.step()?;
    }
    let seconds = began.elapsed().as_secs_f64() / STEPS as f64;
    let after = engine.stats();
    let rows = (after.computed_tokens - before.computed_tokens) as f64 / STEPS as f64;
    let keys = (after.attended_keys - before.attended_keys) as f64 / STEPS as f64;
    // Bytes per step: every weight except the embedding, and every key and value, once.
    let parameters =
        checkpoint.model.parameters().layout().len() - model.architecture.vocab_size * model.architecture.hidden_size;
    let token = EngineConfig::bytes_per_token(model, memory.bytes_per_value) as f64;
    let bytes = (parameters * memory.bytes_per_value) as f64 + keys * token;
    let share = bytes / seconds / 1e9 / ceiling;
    let result = format!(
        "decode {:.0} tokens/s, {:.2} ms a step, {:.0} GB/s ({:.0}% of a copy's); prefill {prefill:.0} tokens/s",
        rows / seconds,
        1e3 * seconds,
        bytes / seconds / 1e9,
        100.0 * share
    );
    let numbers = json!({
        "batch": batch, "decode_tokens_per_s": rows / seconds, "step_seconds": seconds, "step_bytes": bytes,
        "copy_gb_per_s": ceiling, "share_of_copy": share, "prefill_tokens_per_s": prefill,
        "context": keys / rows.max(1.0),
    });
    Ok(row("decode", format!("{batch} at a time, context {:.0}", keys / rows.max(1.0)), result, numbers))
}

/// Self-play with the settings of `benches/baselines/self_play.py`: five turns, 48 tokens per utterance.
pub(super) fn play(settings: &Settings, device: &Device, sink: Sink<'_>) -> Result<(), Error> {
    make(settings)?;
    let options = LoadOptions { device: device.clone(), dtype: WeightDtype::Bf16 };
    let checkpoint = Checkpoint::load_with(&settings.checkpoint, &options)?;
    let prompts = PromptSet::default();
    for (batch, games) in [(1, 1), (16, 16), (64, 128), (128, 256)] {
        let memory = MemoryBudget::for_model(&checkpoint.model)?;
        let model = checkpoint.model.config();
        let engine = EngineConfig { max_step_tokens: 2048, ..EngineConfig::new(model, batch, memory) };
        let sampling = Sampling::random(1.2, Sampling::REFERENCE_TOP_K, None);
        let config = spag_selfplay::TimingConfig { games, ..Default::default() };
        let timing = spag_selfplay::time_play(&checkpoint, &prompts, engine, sampling, config)?;
        let rate = games as f64 / timing.seconds;
        let tokens = timing.stats.new_tokens as f64 / timing.seconds;
        let result = format!("{rate:.3} games/s, {tokens:.0} generated tokens/s");
        let numbers = json!({ "batch": batch, "games": games, "games_per_s": rate, "generated_tokens_per_s": tokens });
        sink(row("play", format!("self-play, {batch} games at a time"), result, numbers));
    }
    Ok(())
}
