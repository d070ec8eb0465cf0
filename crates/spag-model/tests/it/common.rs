//! Fixtures of generation tests.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use spag_model::adapter::{Adapter, LoraConfig};
use spag_model::generate::{AdapterChoice, LogProbs, PromptRange, Sampling, SumOrder};
use spag_model::params::FlatBuffers;
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_tests::{fixture, json};

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) prompt: String,
    pub(crate) input_ids: Vec<u32>,
    pub(crate) output_ids: Vec<u32>,
    pub(crate) decoded: String,
}

pub(crate) fn cases() -> Vec<Case> {
    serde_json::from_value(json(fixture("generate.json"))["cases"].take()).unwrap()
}

pub(crate) fn checkpoint() -> Checkpoint {
    Checkpoint::load(fixture("tiny-llama")).unwrap()
}

pub(crate) fn config(sampling: Sampling) -> GenerationConfig {
    GenerationConfig { max_new_tokens: 48, sampling, ..GenerationConfig::default() }
}

/// A cache large enough for every test.
pub(crate) fn engine_config(page_size: usize) -> EngineConfig {
    let pages = 40 * 512 / page_size;
    let prefix_sharing = Default::default();
    EngineConfig {
        max_length: 512,
        page_size,
        pages,
        max_running: 30,
        max_step_tokens: 512,
        prefix_sharing,
        sum_order: SumOrder::Any,
    }
}

/// The fixture's prompts, each with its own seed.
pub(crate) fn requests(config: &GenerationConfig) -> Vec<Request> {
    let config = Arc::new(config.clone());
    let request = |(i, case): (usize, Case)| Request {
        prompt: case.prompt.into(),
        seed: 1000 + i as u64,
        config: config.clone(),
    };
    cases().into_iter().enumerate().map(request).collect()
}

/// With an adapter: four greedy requests, some sampled, and some with scored prompts. Prompts share prefixes.
pub(crate) fn mixed_requests(adapter: &AdapterChoice, sampled: usize, scored: usize) -> Vec<Request> {
    let with = |sampling, log_probs, count| {
        let config = GenerationConfig { max_new_tokens: 12, log_probs, adapter: adapter.clone(), ..config(sampling) };
        requests(&config).into_iter().take(count).collect::<Vec<_>>()
    };
    let mut all = with(Sampling::Greedy, LogProbs::default(), 4);
    all.extend(with(Sampling::at_temperature(1.2), LogProbs::default(), sampled));
    all.extend(with(Sampling::Greedy, LogProbs { prompt: Some(PromptRange::All), top: 0 }, scored));
    all
}

pub(crate) fn run(setting: EngineConfig, requests: Vec<Request>) -> Vec<Completion> {
    Engine::new(&checkpoint(), setting).unwrap().generate(requests).unwrap()
}

/// An adapter of rank `rank` with random matrices, A and B, for modules of a model.
pub(crate) fn random_adapter(model: &Model, rank: usize, modules: &[&str], seed: u64) -> Adapter {
    let modules = modules.iter().map(|name| (*name).to_owned()).collect();
    let config = LoraConfig::new(rank, 1.5 * rank as f64, modules, None).unwrap();
    let adapter = Adapter::init(config, &model.config().architecture, seed).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let weights = FlatBuffers::zeros(adapter.places().layout(), &Device::Cpu).unwrap();
    for layer in weights.layers().iter().filter(|layer| layer.elem_count() > 0) {
        let values: Vec<f32> = (0..layer.elem_count()).map(|_| rng.random::<f32>() * 0.2 - 0.1).collect();
        layer.slice_set(&Tensor::new(values, &Device::Cpu).unwrap(), 0, 0).unwrap();
    }
    adapter.with_weights(&weights).unwrap()
}

/// The model-dependent data of a completion, as bits.
pub(crate) fn bits(completion: &Completion) -> (Vec<u32>, Vec<Vec<u32>>) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let prompt: Vec<f32> = completion.prompt_log_probs.iter().flatten().flatten().map(|token| token.log_prob).collect();
    let log_probs = [&completion.model_log_probs[..], &completion.sampling_log_probs, &prompt].map(bits);
    (completion.token_ids.clone(), log_probs.to_vec())
}
