//! Compares generation with the reference: prompts, token ids and 48 greedy tokens each from transformers.

use std::sync::Arc;

use crate::common::{cases, checkpoint, config, engine_config, requests, run};
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::{FinishReason, PrefixSharing, Sampling};
use spag_model::tokenizer::{Detokenizer, SpecialTokens};
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};

#[test]
fn prompt_token_ids_equal_the_reference() {
    let tokenizer = checkpoint().tokenizer.clone();
    for case in cases() {
        let ids = tokenizer.encode_prompt(&case.prompt, SpecialTokens::Matched).unwrap();
        assert_eq!(ids, case.input_ids, "{}", case.prompt);
    }
}

/// Alone and batched, with and without prefix sharing, for several page and chunk sizes.
#[test]
fn greedy_tokens_equal_the_reference() {
    let cases = cases();
    for page_size in [1, 16, 64] {
        for prefix_sharing in [PrefixSharing::On, PrefixSharing::Off] {
            for (max_running, max_step_tokens) in [(1, 512), (7, 5), (30, 64)] {
                let setting = EngineConfig {
                    page_size,
                    prefix_sharing,
                    max_running,
                    max_step_tokens,
                    ..engine_config(page_size)
                };
                let completions = run(setting, requests(&config(Sampling::Greedy)));
                for (got, want) in completions.iter().zip(&cases) {
                    assert_eq!(got.token_ids, want.output_ids, "{setting:?}, prompt {}", want.prompt);
                    assert_eq!(got.text, want.decoded, "{setting:?}");
                    assert_eq!((got.prompt_tokens, got.truncated_tokens), (want.input_ids.len(), 0));
                }
            }
        }
    }
}

/// The engine's log-probabilities equal those of a forward pass over the finished text.
#[test]
fn log_probabilities_equal_a_plain_forward_pass() {
    let model = &checkpoint().model;
    for sampling in [Sampling::Greedy, Sampling::at_temperature(1.2)] {
        let completions = run(engine_config(16), requests(&config(sampling)));
        let mut compared = 0;
        for (got, case) in completions.iter().zip(cases()) {
            let prompt = case.input_ids.len();
            let all = [case.input_ids, got.token_ids.clone()].concat();
            let rows = (prompt - 1..all.len() - 1).map(|row| row as u32).collect();
            let targets = Targets { rows, tokens: got.token_ids.clone(), ..Targets::default() };
            let want = model.log_probs(&PackedBatch::new([all.as_slice()]), &targets).unwrap();
            assert_eq!(want.len(), got.model_log_probs.len());
            for (got, want) in got.model_log_probs.iter().zip(&want) {
                assert!((got - want).abs() < 1e-5, "{got}, not {want}");
                compared += 1;
            }
        }
        assert!(compared > 300, "{compared}");
    }
}

#[test]
fn long_prompts_are_truncated_on_the_left() {
    let case = &cases()[2];
    let short = Arc::new(GenerationConfig { max_new_tokens: 8, ..GenerationConfig::default() });
    let request = |prompt: String| Request { prompt: prompt.into(), seed: 0, config: short.clone() };
    let setting = EngineConfig { max_length: 64, ..engine_config(16) };
    let got = run(setting, vec![request(case.prompt.clone())]).remove(0);
    assert_eq!((got.prompt_tokens, got.truncated_tokens), (56, case.input_ids.len() - 56));
    // The truncated prompt gives the same tokens as its last tokens alone, except for the removed BOS.
    let mut engine = Engine::new(&checkpoint(), setting).unwrap();
    engine.generate(vec![request(case.prompt.clone()), request("short".into())]).unwrap();
    assert_eq!(engine.stats().truncated_prompts, 1);
}

#[test]
fn min_new_tokens_suppresses_eos() {
    let held = GenerationConfig { min_new_tokens: 48, ..config(Sampling::at_temperature(1.5)) };
    let completions = run(engine_config(16), requests(&held));
    assert!(completions.iter().all(|c| c.token_ids.len() == 48 && c.finish == FinishReason::Length));
    let free = run(engine_config(16), requests(&config(Sampling::at_temperature(1.5))));
    assert!(free.iter().any(|c| c.finish == FinishReason::Eos && c.token_ids.last() == Some(&2)));
}

#[test]
fn stop_tokens_and_stop_strings_end_completions() {
    let plain = run(engine_config(16), requests(&config(Sampling::Greedy)));
    let (at, whole) = plain.iter().enumerate().find(|(_, c)| c.text.chars().count() > 12).unwrap();
    let request = |config: GenerationConfig| Request {
        config: Arc::new(config),
        ..requests(&GenerationConfig::default())[at].clone()
    };

    let token = whole.token_ids[4];
    let stopped = run(
        engine_config(16),
        vec![request(GenerationConfig { stop_tokens: vec![token], ..config(Sampling::Greedy) })],
    );
    let first = whole.token_ids.iter().position(|id| *id == token).unwrap();
    assert_eq!((stopped[0].finish, &stopped[0].token_ids[..]), (FinishReason::StopToken, &whole.token_ids[..=first]));
    assert_eq!(stopped[0].text, checkpoint().tokenizer.decode(&whole.token_ids[..first]).unwrap());

    let stop: String = whole.text.chars().skip(4).take(5).collect();
    let cut = whole.text.find(&stop).unwrap();
    let strings = vec!["never said 4711".to_owned(), stop];
    let stopped =
        run(engine_config(16), vec![request(GenerationConfig { stop_strings: strings, ..config(Sampling::Greedy) })]);
    assert_eq!((stopped[0].finish, stopped[0].text.as_str()), (FinishReason::StopString, &whole.text[..cut]));
    assert!(stopped[0].token_ids.len() < whole.token_ids.len());
    assert!(whole.token_ids.starts_with(&stopped[0].token_ids));
}

#[test]
fn impossible_requests_are_rejected_with_the_reason() {
    let checkpoint = checkpoint();
    let mut engine = Engine::new(&checkpoint, EngineConfig { max_length: 64, pages: 3, ..engine_config(16) }).unwrap();
    let mut refused = |config: GenerationConfig, prompt: &str| {
        let error = engine.submit(Request { prompt: prompt.into(), seed: 0, config: Arc::new(config) }).unwrap_err();
        assert_eq!(engine.unfinished(), 0);
        error.to_string()
    };
    let long = "the horse and the tiger and the horse and the tiger again".repeat(3);
    let tokens = |max_new_tokens| GenerationConfig { max_new_tokens, ..GenerationConfig::default() };
    assert!(refused(tokens(0), "a").contains("max_new_tokens must be at least 1"));
    assert!(refused(tokens(64), "a").contains("leaves no room for a prompt in max_length 64"));
    assert!(refused(tokens(20), &long).contains("need 4 pages of 16 tokens, but the engine has 3"));
    assert!(refused(GenerationConfig { stop_strings: vec![String::new()], ..tokens(8) }, "a").contains("stop string"));
    for wrong in [
        EngineConfig { max_length: 4096, ..engine_config(16) },
        EngineConfig { pages: 0, ..engine_config(16) },
        EngineConfig { max_running: 0, ..engine_config(16) },
    ] {
        assert!(Engine::new(&checkpoint, wrong).is_err(), "{wrong:?}");
    }
}

/// Engines pack the weights in place, but not in the memory of a clone. All sizes here are multiples of a panel's 64
/// rows, which allows packing in place.
#[test]
fn engines_leave_the_weights_of_clones_as_they_are() {
    for tied in [true, false] {
        let config = checkpoint().model.config().with("vocab_size", 1024).unwrap();
        let config = config.with("intermediate_size", 192).unwrap().with("tie_word_embeddings", tied).unwrap();
        let model = Model::init(&config, 3).unwrap();
        let tokenizer = checkpoint().tokenizer.clone();
        let shared = Checkpoint { model, tokenizer };
        let rows = || shared.model.logits(&PackedBatch::new([&[1, 2, 3][..]]), &[2]).unwrap().to_vec2::<f32>().unwrap();
        let before = rows();
        let limits = GenerationConfig { max_new_tokens: 4, ..GenerationConfig::default() };
        let request = || vec![Request { prompt: "a horse".into(), seed: 0, config: Arc::new(limits.clone()) }];
        let mut clone = Engine::from_checkpoint(shared.clone(), engine_config(16)).unwrap();
        let expected = clone.generate(request()).unwrap();
        assert_eq!(rows(), before, "tied: {tied}");
        let mut last = Engine::from_checkpoint(shared, engine_config(16)).unwrap();
        assert_eq!(last.generate(request()).unwrap(), expected, "tied: {tied}");
    }
}

/// The concatenated pieces equal the text; no piece splits a character, although characters span several tokens.
#[test]
fn detokenizer_never_splits_characters() {
    let tokenizer = &checkpoint().tokenizer;
    let texts = ["Straße, 東京 and 🐎🐅!", "  two blanks", "é", "", "ends in half 🐎"];
    for text in texts {
        let mut ids = tokenizer.encode(text).unwrap();
        if text.starts_with("ends") {
            ids.pop();
        }
        let mut detokenizer = Detokenizer::default();
        let mut said = String::new();
        for id in &ids {
            let piece = detokenizer.push(tokenizer, *id).unwrap();
            assert!(!piece.contains('\u{fffd}'), "{piece:?} of {text:?}");
            said += &piece;
        }
        said += &detokenizer.finish();
        assert_eq!(said, tokenizer.decode(&ids).unwrap(), "{text:?}");
    }
}
