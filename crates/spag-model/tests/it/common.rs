//! Fixtures of generation.

use std::sync::Arc;

use serde::Deserialize;
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Request, Sampling};
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
    EngineConfig { max_length: 512, page_size, pages, max_running: 30, max_step_tokens: 512, prefix_sharing }
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

pub(crate) fn run(setting: EngineConfig, requests: Vec<Request>) -> Vec<Completion> {
    Engine::new(&checkpoint(), setting).unwrap().generate(requests).unwrap()
}
