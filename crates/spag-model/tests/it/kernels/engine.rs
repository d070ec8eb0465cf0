//! Compares the generation engine with that on the CPU.

use std::sync::Arc;

use spag_emulator::Place;
use spag_model::dtype::WeightDtype;
use spag_model::generate::{AdapterChoice, LogProbs, PrefixSharing, Prompt, PromptRange, Sampling, SumOrder};
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_tests::fixture;

use super::{copied, small_engine};
use crate::common::{cases, checkpoint, random_adapter};

/// Generated tokens per request: enough to exceed a page.
const TOKENS: usize = 6;
/// f32 sums in another order, through three blocks.
const LOG_PROB_TOLERANCE: f32 = 1e-4;

/// In f32, with chunked prefill, shared and copied pages, greedy and random sampling. No two tokens of the fixture are close
/// enough for rounding to swap them.
#[test]
fn tokens_equal_those_of_the_cpu() {
    let (place, checkpoint, cases) = (Place::of_this_build(), checkpoint(), cases());
    let sampled = Sampling::Random { temperature: 1.2, top_k: Some(400), top_p: Some(0.98) };
    let mut requests = Vec::new();
    for (sampling, seed) in [(Sampling::Greedy, 1), (Sampling::at_temperature(1.2), 2), (sampled, 3)] {
        // Scored prompts are not taken from the cache.
        let prompt = (seed == 2).then_some(PromptRange::All);
        let config = GenerationConfig {
            max_new_tokens: TOKENS,
            min_new_tokens: 2,
            sampling,
            log_probs: LogProbs { prompt, top: 3 },
            ..GenerationConfig::default()
        };
        let config = Arc::new(config);
        // A common prefix longer than a page with different ends, and a prompt of one token.
        for prompt in [format!("{}{seed}", cases[6].prompt), cases[24].prompt.clone()] {
            requests.push(Request { prompt: prompt.into(), seed, config: config.clone() });
        }
    }
    let setting = EngineConfig {
        max_length: 128,
        page_size: 16,
        pages: 24,
        max_running: 4,
        max_step_tokens: 24,
        prefix_sharing: PrefixSharing::On,
        sum_order: SumOrder::Any,
    };
    let run = |checkpoint: &Checkpoint| -> (Vec<Completion>, u64) {
        let mut engine = Engine::new(checkpoint, setting).unwrap();
        let completions = engine.generate(requests.clone()).unwrap();
        assert_eq!(engine.capture_failure(), None);
        (completions, engine.stats().cached_tokens)
    };
    let (want, _) = run(&checkpoint);
    let there = Checkpoint { model: copied(&checkpoint.model, &place), tokenizer: checkpoint.tokenizer.clone() };
    let (got, shared) = place.run(|| run(&there));
    assert!(shared > 16, "{shared} tokens were found in the cache");
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got.token_ids, want.token_ids);
        let pairs = got.model_log_probs.iter().zip(&want.model_log_probs);
        for (got, want) in pairs.chain(got.sampling_log_probs.iter().zip(&want.sampling_log_probs)) {
            assert!((got - want).abs() < LOG_PROB_TOLERANCE, "{got}, not {want}");
        }
        let (got, want) = (reported(got), reported(want));
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() < LOG_PROB_TOLERANCE, "{got}, not {want}");
        }
    }
}

/// Rows of two adapters and of the base in one batch; prefixes are not shared across adapters.
#[test]
fn adapters_give_the_tokens_of_the_cpu() {
    let (place, checkpoint) = (Place::of_this_build(), checkpoint());
    let adapters = [("a", 4, vec!["all-linear"], 1), ("b", 3, vec!["v_proj", "up_proj"], 2)]
        .map(|(name, rank, modules, seed)| (name, random_adapter(&checkpoint.model, rank, &modules, seed)));
    let choices = [AdapterChoice::Base, AdapterChoice::named("a"), AdapterChoice::named("b")];
    let requests = choices.map(|adapter| {
        let config =
            GenerationConfig { max_new_tokens: TOKENS, min_new_tokens: 2, adapter, ..GenerationConfig::default() };
        Request { prompt: Prompt::Tokens((1..24).collect()), seed: 1, config: Arc::new(config) }
    });
    let run = |checkpoint: &Checkpoint| -> Vec<Completion> {
        let setting = small_engine(16, 3);
        let mut engine = Engine::new(checkpoint, setting).unwrap();
        for (name, adapter) in &adapters {
            engine.add_adapter(name, adapter).unwrap();
        }
        engine.generate(requests.to_vec()).unwrap()
    };
    let want = run(&checkpoint);
    let there = Checkpoint { model: copied(&checkpoint.model, &place), tokenizer: checkpoint.tokenizer.clone() };
    for (got, want) in place.run(|| run(&there)).iter().zip(&want) {
        assert_eq!((&got.token_ids, got.cached_tokens), (&want.token_ids, 0));
        for (got, want) in got.model_log_probs.iter().zip(&want.model_log_probs) {
            assert!((got - want).abs() < LOG_PROB_TOLERANCE, "{got}, not {want}");
        }
    }
    assert!(want[0].model_log_probs != want[1].model_log_probs && want[1].model_log_probs != want[2].model_log_probs);
}

/// With weights in both number formats, bit by bit.
#[test]
fn refreshed_engines_compute_as_new_ones() {
    let place = &Place::of_this_build();
    let Checkpoint { model, tokenizer } = Checkpoint::load(fixture("families/qwen3")).unwrap();
    let prompt = Prompt::Tokens((1..40).collect());
    let config = Arc::new(GenerationConfig { max_new_tokens: 3, min_new_tokens: 3, ..GenerationConfig::default() });
    let request = Request { prompt, seed: 1, config };
    let setting = small_engine(8, 2);
    let other = Model::init(model.config(), 3).unwrap();
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let engine = |model: &Model| {
            let model = copied(&model.to_dtype(dtype).unwrap(), place);
            Engine::new(&Checkpoint { model, tokenizer: tokenizer.clone() }, setting).unwrap()
        };
        let source = copied(&model, place);
        place.run(|| {
            let answer = |engine: &mut Engine| engine.generate(vec![request.clone()]).unwrap().remove(0);
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            let (want, mut refreshed) = (answer(&mut engine(&model)), engine(&other));
            let before = answer(&mut refreshed);
            refreshed.refresh(source.parameters(), 2).unwrap();
            let got = answer(&mut refreshed);
            assert_eq!(
                (&got.token_ids, bits(&got.model_log_probs), got.policy_version, got.cached_tokens),
                (&want.token_ids, bits(&want.model_log_probs), 2, 0)
            );
            assert_ne!(before.model_log_probs, got.model_log_probs);
        });
    }
}

/// The log-probabilities of a prompt, and those of the most likely tokens at every position.
fn reported(completion: &Completion) -> Vec<f32> {
    let prompt = completion.prompt_log_probs.iter().flatten().flatten();
    let prompt = prompt.flat_map(|one| one.top.iter().map(|(_, log_prob)| *log_prob).chain([one.log_prob]));
    prompt.chain(completion.top_log_probs.iter().flatten().map(|(_, log_prob)| *log_prob)).collect()
}
