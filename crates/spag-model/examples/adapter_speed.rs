//! Benchmarks decoding with several adapters against the base model: tokens per second, alternating, and the ratio of medians.
//!
//! ```text
//! cargo run --release -p spag-model --example adapter_speed -- MODEL [ROWS] [ADAPTERS] [RANK] [MODULES]
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::adapter::{Adapter, LoraConfig};
use spag_model::checkpoint::LoadOptions;
use spag_model::dtype::WeightDtype;
use spag_model::generate::{AdapterChoice, EosRule, MemoryBudget, PrefixSharing};
use spag_model::params::FlatBuffers;
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};

/// Tokens of each prompt, and of its completion.
const PROMPT: usize = 64;
const NEW_TOKENS: usize = 64;
/// Timed rounds of each kind, after an untimed one.
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let model = args.next().ok_or("name a model's folder")?;
    let mut number = |default| args.next().map_or(Ok(default), |text| text.parse::<usize>());
    let (rows, adapters, rank) = (number(32)?, number(8)?, number(16)?);
    let modules = args.next().unwrap_or_else(|| "all-linear".to_owned());
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let checkpoint = Checkpoint::load_with(&model, &LoadOptions { device: Device::Cpu, dtype })?;
        let budget = MemoryBudget { bytes_per_value: dtype.bytes(), ..MemoryBudget::host() };
        let limits = EngineConfig::with_max_length(checkpoint.model.config(), rows, PROMPT + NEW_TOKENS, budget);
        let limits = EngineConfig { prefix_sharing: PrefixSharing::Off, ..limits };
        let drawn = (0..adapters).map(|seed| random(&checkpoint.model, rank, &modules, seed as u64));
        let drawn = drawn.collect::<Result<Vec<_>, _>>()?;
        let mut engine = Engine::from_checkpoint(checkpoint, limits)?;
        for (index, adapter) in drawn.iter().enumerate() {
            engine.add_adapter(&index.to_string(), adapter)?;
        }
        let (mut base, mut adapted) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let one = decode(&mut engine, rows, |_| AdapterChoice::Base)?;
            let other = decode(&mut engine, rows, |row| AdapterChoice::named(&(row % adapters).to_string()))?;
            if round > 0 {
                base.push(one);
                adapted.push(other);
            }
        }
        let [base, adapted] = [base, adapted].map(median);
        println!(
            "{dtype}, {rows} rows: base {base:.0} tokens/s, {adapters} adapters of rank {rank} ({modules}) {adapted:.0}, ratio {:.3}",
            adapted / base
        );
    }
    Ok(())
}

/// An adapter with random matrices, with B non-zero.
fn random(model: &Model, rank: usize, modules: &str, seed: u64) -> Result<Adapter, Box<dyn Error>> {
    let modules = modules.split(',').map(str::to_owned).collect();
    let config = LoraConfig::new(rank, rank as f64, modules, None)?;
    let adapter = Adapter::init(config, &model.config().architecture, seed)?;
    let weights = FlatBuffers::zeros(adapter.places().layout(), &Device::Cpu)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for layer in weights.layers().iter().filter(|layer| layer.elem_count() > 0) {
        let values: Vec<f32> = (0..layer.elem_count()).map(|_| rng.random_range(-0.01..0.01)).collect();
        layer.slice_set(&Tensor::new(values, &Device::Cpu)?, 0, 0)?;
    }
    Ok(adapter.with_weights(&weights)?)
}

/// Tokens per second of the passes in which all rows decode.
fn decode(engine: &mut Engine, rows: usize, adapter: impl Fn(usize) -> AdapterChoice) -> Result<f64, Box<dyn Error>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for row in 0..rows {
        let prompt: Vec<u32> = (0..PROMPT).map(|_| rng.random_range(0..200)).collect();
        let config = GenerationConfig {
            max_new_tokens: NEW_TOKENS,
            eos: EosRule::Ignored,
            adapter: adapter(row),
            ..GenerationConfig::default()
        };
        engine.submit(Request { prompt: prompt.into(), seed: 0, config: Arc::new(config) })?;
    }
    let (mut seconds, mut tokens) = (0.0, 0);
    while engine.unfinished() > 0 {
        let before = engine.stats().computed_tokens;
        let began = Instant::now();
        engine.step()?;
        let computed = engine.stats().computed_tokens - before;
        if computed == rows as u64 {
            seconds += began.elapsed().as_secs_f64();
            tokens += computed;
        }
    }
    Ok(tokens as f64 / seconds)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
