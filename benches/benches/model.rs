//! Benchmarks of a training step, a decode step and a whole game, with the shape of the shipped base model (about one
//! million parameters).

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::path::Path;
use std::sync::Arc;

use candle_core::Device;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use spag_game::taboo::Taboo;
use spag_game::{FinishedGame, GameSpec, PlayConfig, PromptSet, Seats, game_seed, play_games};
use spag_model::batch::{PackedBatch, Targets};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{MemoryBudget, Sampling};
use spag_model::model::Activations;
use spag_model::params::FlatBuffers;
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Model, ModelConfig, Request};
use spag_selfplay::ModelPlayer;
use spag_train::optimizer::{self, OptimizerState, global_norm};
use spag_train::{Placement, TrainConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn checkpoint() -> Arc<Checkpoint> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tiny-llama");
    Arc::new(Checkpoint::load(dir).expect("the base model is part of the repository"))
}

fn prompts() -> PromptSet {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/tiny-prompts.json");
    PromptSet::load(path).expect("the prompts are part of the repository")
}

/// Forward, backward, gradient norm and update on 32 sequences of 100 tokens, with loss on all tokens.
fn train_step(c: &mut Criterion) {
    let checkpoint = checkpoint();
    let model = &checkpoint.model;
    let layout = model.parameters().layout().clone();
    let gradients = FlatBuffers::zeros(&layout, &Device::Cpu).expect("memory for gradients");
    let adamw = optimizer::build(&TrainConfig::default());
    let mut optimizer = OptimizerState::new(adamw, model.parameters(), Placement::Device, WeightDtype::F32)
        .expect("memory for moments");
    let (rows, length, vocabulary) = (32u32, 100u32, model.config().architecture.vocab_size as u32);
    let sequences: Vec<Vec<u32>> =
        (0..rows).map(|r| (0..length).map(|t| (r * 31 + t * 17) % vocabulary).collect()).collect();
    let batch = PackedBatch::new(sequences.iter().map(Vec::as_slice));
    let mut targets = Targets::default();
    for (row, sequence) in sequences.iter().enumerate() {
        targets.rows.extend((0..length - 1).map(|t| row as u32 * length + t));
        targets.tokens.extend(&sequence[1..]);
    }
    let upstream = vec![-1.0 / targets.rows.len() as f32; targets.rows.len()];
    let mut group = c.benchmark_group("train step");
    group.throughput(Throughput::Elements(u64::from(rows * length)));
    for (name, keep) in [("keep", Activations::Keep), ("recompute", Activations::Recompute)] {
        group.bench_function(format!("1M, 32 × 100 tokens, {name}"), |b| {
            b.iter_batched(
                || (batch.clone(), targets.clone()),
                |(batch, targets)| -> spag_train::Result<()> {
                    gradients.set_zero()?;
                    let forward = model.forward(batch, targets, keep)?;
                    model.backward_from(forward, &upstream, &gradients)?;
                    global_norm(&gradients)?;
                    optimizer.update(model.parameters().layers(), gradients.layers(), 0.0, 1.0)
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// 24 new tokens for 1 and for 256 concurrent sequences, with cached prompts.
fn decode(c: &mut Criterion) {
    let checkpoint = checkpoint();
    let config = Arc::new(GenerationConfig {
        max_new_tokens: 24,
        min_new_tokens: 24,
        sampling: Sampling::at_temperature(1.0),
        ..GenerationConfig::default()
    });
    let mut group = c.benchmark_group("decode");
    for batch in [1u64, 256] {
        let setting = EngineConfig::new(checkpoint.model.config(), batch as usize, MemoryBudget::host());
        let mut engine = Engine::new(&checkpoint, setting).expect("sound settings");
        let prompt = prompts().playing_query(&[], "horse", 5);
        let requests: Vec<Request> =
            (0..batch).map(|seed| Request { prompt: prompt.clone().into(), seed, config: config.clone() }).collect();
        group.throughput(Throughput::Elements(24 * batch));
        group.bench_function(format!("24 tokens, batch {batch}"), |b| {
            b.iter(|| engine.generate(requests.clone()).map(|c| c.len()).unwrap_or(0));
        });
    }
    group.finish();
}

/// New weights in an engine with the shape of SmolLM2-135M, in both number formats, from f32: bytes read and written.
fn refresh(c: &mut Criterion) {
    let config: ModelConfig = serde_json::from_str(
        r#"{"hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49152, "num_hidden_layers": 30,
            "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 512,
            "tie_word_embeddings": true}"#,
    )
    .expect("a sound configuration");
    let model = Model::init(&config, 1).expect("memory");
    let mut group = c.benchmark_group("refresh");
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let packed =
            Checkpoint { model: model.to_dtype(dtype).expect("memory"), tokenizer: checkpoint().tokenizer.clone() };
        let setting = EngineConfig::new(&config, 1, MemoryBudget::host());
        let mut engine = Engine::new(&packed, setting).expect("sound settings");
        let bytes = model.parameters().layout().len() * (4 + dtype.bytes());
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("135M, {dtype} from f32"), |b| {
            b.iter(|| engine.refresh(model.parameters(), 1).expect("the same architecture"));
        });
    }
    group.finish();
}

/// Self-play games of the base model, 1 and 64 at a time.
fn game(c: &mut Criterion) {
    let checkpoint = checkpoint();
    let prompts = prompts();
    let generation =
        GenerationConfig { max_new_tokens: 24, sampling: Sampling::at_temperature(1.0), ..GenerationConfig::default() };
    let mut group = c.benchmark_group("self-play");
    for games in [1usize, 64] {
        let config = PlayConfig { games_in_flight: games, ..PlayConfig::default() };
        let engine = EngineConfig::new(checkpoint.model.config(), games, MemoryBudget::host());
        let mut player =
            ModelPlayer::load(Checkpoint::clone(&checkpoint), generation.clone(), engine).expect("sound settings");
        group.throughput(Throughput::Elements(games as u64));
        group.bench_function(format!("{games} games at once"), |b| {
            b.iter(|| {
                let specs = (0..games).map(|number| GameSpec {
                    number,
                    item: "horse".into(),
                    max_turns: 5,
                    seed: game_seed(1, number),
                });
                let mut finished = 0;
                play_games(
                    &Taboo::new(&prompts),
                    specs,
                    Seats::SelfPlay(&mut player),
                    &config,
                    &mut |_: FinishedGame| {
                        finished += 1;
                        Ok(())
                    },
                )
                .map(|()| finished)
                .unwrap_or(0)
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = train_step, decode, refresh, game
}
criterion_main!(benches);
