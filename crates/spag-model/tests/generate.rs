//! Generation against the reference: prompts, token ids and 48 greedy tokens each from transformers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use spag_model::{Checkpoint, Completion, GenerationConfig, Generator, Request, Sampling};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt: String,
    input_ids: Vec<u32>,
    output_ids: Vec<u32>,
    decoded: String,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(fixtures().join("generate.json")).unwrap();
    serde_json::from_str::<Cases>(&text).unwrap().cases
}

fn checkpoint() -> Arc<Checkpoint> {
    Arc::new(Checkpoint::load(fixtures().join("tiny-llama")).unwrap())
}

fn config(sampling: Sampling) -> GenerationConfig {
    GenerationConfig { max_new_tokens: 48, min_new_tokens: 0, max_length: 512, sampling }
}

fn run(slots: usize, config: GenerationConfig, requests: &[Request]) -> Vec<Completion> {
    Generator::new(checkpoint(), config, slots).unwrap().generate(requests).unwrap()
}

#[test]
fn prompts_have_the_references_token_ids() {
    let tokenizer = checkpoint().tokenizer.clone();
    for case in cases() {
        let mut ids = vec![tokenizer.bos()];
        ids.extend(tokenizer.encode(&case.prompt).unwrap());
        assert_eq!(ids, case.input_ids, "{}", case.prompt);
    }
}

#[test]
fn greedy_tokens_equal_the_references_alone_and_batched() {
    let cases = cases();
    let requests: Vec<Request> = cases.iter().map(|c| Request { prompt: c.prompt.clone(), seed: 0 }).collect();
    for slots in [1, 7, 30] {
        for (got, want) in run(slots, config(Sampling::Greedy), &requests).iter().zip(&cases) {
            // The reference's list may end with EOS; a completion never holds it.
            let want_ids: Vec<u32> = want.output_ids.iter().copied().take_while(|t| *t != 2).collect();
            assert_eq!(got.token_ids, want_ids, "slots {slots}, prompt {}", want.prompt);
            assert_eq!(got.text, want.decoded, "slots {slots}");
            assert_eq!((got.prompt_tokens, got.cut_tokens), (want.input_ids.len(), 0));
        }
    }
}

#[test]
fn sampled_tokens_do_not_depend_on_the_batch() {
    let requests: Vec<Request> =
        cases().into_iter().enumerate().map(|(i, c)| Request { prompt: c.prompt, seed: 1000 + i as u64 }).collect();
    let config = config(Sampling::at_temperature(1.2));
    let alone: Vec<Completion> = requests.iter().map(|r| run(1, config, std::slice::from_ref(r)).remove(0)).collect();
    assert!(alone.iter().any(|c| c.token_ids.len() > 4));
    for slots in [2, 11, 30] {
        assert_eq!(run(slots, config, &requests), alone, "slots {slots}");
    }
    let mut reversed: Vec<Request> = requests.clone();
    reversed.reverse();
    let mut again = run(9, config, &reversed);
    again.reverse();
    assert_eq!(again, alone);
}

#[test]
fn a_prompt_that_was_seen_is_not_computed_again() {
    let prompt = &cases()[3].prompt;
    let mut generator = Generator::new(checkpoint(), config(Sampling::Greedy), 4).unwrap();
    let first = generator.generate(&[Request { prompt: prompt.clone(), seed: 0 }]).unwrap();
    let computed = generator.stats().prompt_tokens - generator.stats().reused_tokens;
    let second = generator.generate(&[Request { prompt: prompt.clone(), seed: 0 }]).unwrap();
    assert_eq!(first, second);
    let stats = generator.stats();
    // All but the last prompt token, which must be computed to know what follows.
    assert_eq!(stats.prompt_tokens - stats.reused_tokens - computed, 1);
}

#[test]
fn long_prompts_lose_tokens_on_the_left() {
    let case = &cases()[2];
    let short = GenerationConfig { max_new_tokens: 8, min_new_tokens: 0, max_length: 64, sampling: Sampling::Greedy };
    let got = run(1, short, &[Request { prompt: case.prompt.clone(), seed: 0 }]).remove(0);
    assert_eq!((got.prompt_tokens, got.cut_tokens), (56, case.input_ids.len() - 56));
}

#[test]
fn eos_is_held_back_until_enough_tokens_are_out() {
    let requests: Vec<Request> = cases().into_iter().map(|c| Request { prompt: c.prompt, seed: 5 }).collect();
    let held = GenerationConfig { min_new_tokens: 48, ..config(Sampling::at_temperature(1.5)) };
    assert!(run(30, held, &requests).iter().all(|c| c.token_ids.len() == 48));
}

#[test]
fn impossible_settings_are_refused() {
    for (max_new_tokens, max_length) in [(0, 64), (64, 64), (8, 4096)] {
        let wrong = GenerationConfig { max_new_tokens, min_new_tokens: 0, max_length, sampling: Sampling::Greedy };
        assert!(Generator::new(checkpoint(), wrong, 1).is_err(), "{max_new_tokens} {max_length}");
    }
    assert!(Generator::new(checkpoint(), config(Sampling::Greedy), 0).is_err());
}
