//! Greedy tokens of the reference implementation.

use std::sync::Arc;

use spag_emulator::Place;
use spag_model::checkpoint::LoadOptions;
use spag_model::dtype::WeightDtype;
use spag_model::generate::MemoryBudget;
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Request};
use spag_tests::fixture;

use crate::common::cases;

#[test]
fn f32_tokens_equal_those_of_the_reference() {
    let (equal, all) = before_a_difference(WeightDtype::F32);
    assert_eq!(equal, all);
}

/// Rounding may swap close tokens, which changes all later tokens.
#[test]
fn half_of_the_bf16_tokens_come_before_a_difference() {
    let (equal, all) = before_a_difference(WeightDtype::Bf16);
    assert!(2 * equal >= all, "{equal} of {all}");
}

/// The number of tokens of all completions before the first difference to the reference, and their total number.
fn before_a_difference(dtype: WeightDtype) -> (usize, usize) {
    let place = Place::of_this_build();
    let (count, tokens) = if place.is_emulated() { (3, 12) } else { (30, 48) };
    let cases = &cases()[..count];
    let options = LoadOptions { device: place.device().clone(), dtype };
    let checkpoint = Checkpoint::load_with(fixture("tiny-llama"), &options).unwrap();
    let config = Arc::new(GenerationConfig { max_new_tokens: tokens, ..GenerationConfig::default() });
    let request = |prompt: &String| Request { prompt: prompt.clone().into(), seed: 0, config: config.clone() };
    let requests = cases.iter().map(|case| request(&case.prompt)).collect();
    let completions = place.run(|| {
        let memory = MemoryBudget::for_model(&checkpoint.model).unwrap();
        let setting = EngineConfig::new(checkpoint.model.config(), 8, memory);
        Engine::new(&checkpoint, setting).unwrap().generate(requests).unwrap()
    });
    let (mut equal, mut all) = (0, 0);
    for (completion, case) in completions.iter().zip(cases) {
        let want = &case.output_ids[..case.output_ids.len().min(tokens)];
        equal += completion.token_ids.iter().zip(want).take_while(|(got, want)| got == want).count();
        all += want.len();
    }
    println!("{dtype}: {equal} of {all} tokens before a difference");
    (equal, all)
}
