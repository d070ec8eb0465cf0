//! LongRoPE: the frequencies of all tokens depend on the length of the whole sequence.

use std::sync::Arc;

use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::{LogProbs, MemoryBudget, PrefixSharing, PromptRange};
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_tests::fixture;

/// The length after which sequences are long.
const MOST: usize = 77;

/// Tokens of a text.
fn text(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| 5 + i * 37 % 400).collect()
}

/// The most likely tokens after a prompt, each from a pass over the whole sequence, with their log-probabilities.
fn completed(model: &Model, prompt: &[u32], count: usize) -> Vec<(u32, f32)> {
    let mut tokens = prompt.to_vec();
    let next = |tokens: &mut Vec<u32>| {
        let batch = PackedBatch::new([tokens.as_slice()]);
        let row = tokens.len() as u32 - 1;
        let logits = model.logits(&batch, &[row]).unwrap().to_vec2::<f32>().unwrap().remove(0);
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32;
        let targets = Targets { rows: vec![row], tokens: vec![best], ..Targets::default() };
        let log_prob = model.log_probs(&batch, &targets).unwrap()[0];
        tokens.push(best);
        (best, log_prob)
    };
    (0..count).map(|_| next(&mut tokens)).collect()
}

/// Prompts that begin alike: short ones, one that becomes long, and long ones, in small chunks, with preemptions and shared
/// prefixes.
#[test]
fn sequences_that_become_long_are_computed_anew() {
    let checkpoint = Checkpoint::load(fixture("families/phi3-longrope")).unwrap();
    let rules = Arc::new(GenerationConfig { max_new_tokens: 12, min_new_tokens: 12, ..GenerationConfig::default() });
    let lengths = [20, MOST - 12, MOST - 5, MOST - 1, MOST, MOST + 1, 120];
    let prompts = lengths.map(text);
    let plain = EngineConfig::new(checkpoint.model.config(), 8, MemoryBudget::host());
    let small =
        EngineConfig { max_length: 140, page_size: 16, pages: 24, max_step_tokens: 23, max_running: 4, ..plain };
    let alone = EngineConfig { max_running: 1, prefix_sharing: PrefixSharing::Off, ..small };
    for setting in [plain, small, alone] {
        let ask = |prompt: &Vec<u32>| Request { prompt: prompt.clone().into(), seed: 1, config: rules.clone() };
        let mut engine = Engine::new(&checkpoint, setting).unwrap();
        let done = engine.generate(prompts.iter().map(ask).collect()).unwrap();
        for (prompt, done) in prompts.iter().zip(done) {
            let found: Vec<(u32, f32)> = done.token_ids.into_iter().zip(done.model_log_probs).collect();
            let expected = completed_without_eos(&checkpoint, prompt, found.len());
            for ((token, log_prob), (wanted, exact)) in found.iter().zip(&expected) {
                assert_eq!((token, log_prob.to_bits()), (wanted, exact.to_bits()), "{}, {setting:?}", prompt.len());
            }
        }
    }
}

/// [`completed`]; the model never ends these texts early.
fn completed_without_eos(checkpoint: &Checkpoint, prompt: &[u32], count: usize) -> Vec<(u32, f32)> {
    let expected = completed(&checkpoint.model, prompt, count);
    assert!(expected.iter().all(|(token, _)| !checkpoint.tokenizer.eos_ids().contains(token)));
    expected
}

/// Scores of prompts on both sides, with a text in common.
#[test]
fn prompts_are_scored_by_their_whole_length() {
    let checkpoint = Checkpoint::load(fixture("families/phi3-longrope")).unwrap();
    let log_probs = LogProbs { prompt: Some(PromptRange::All), top: 0 };
    let config = Arc::new(GenerationConfig { log_probs, max_new_tokens: 0, ..GenerationConfig::default() });
    let prompts = [text(MOST), text(MOST + 1), text(100)];
    let setting =
        EngineConfig { page_size: 16, ..EngineConfig::new(checkpoint.model.config(), 8, MemoryBudget::host()) };
    let ask = |prompt: &Vec<u32>| Request { prompt: prompt.clone().into(), seed: 1, config: config.clone() };
    let done = Engine::new(&checkpoint, setting).unwrap().generate(prompts.iter().map(ask).collect()).unwrap();
    for (prompt, done) in prompts.iter().zip(done) {
        let rows = (0..prompt.len() as u32 - 1).collect();
        let targets = Targets { rows, tokens: prompt[1..].to_vec(), ..Targets::default() };
        let expected = checkpoint.model.log_probs(&PackedBatch::new([prompt.as_slice()]), &targets).unwrap();
        let found = done.prompt_log_probs.unwrap().into_iter().flatten().map(|token| token.log_prob.to_bits());
        assert!(found.eq(expected.iter().map(|log_prob| log_prob.to_bits())), "{}", prompt.len());
    }
}

#[test]
fn sequences_with_common_rows_are_refused() {
    let model = Checkpoint::load(fixture("families/phi3-longrope")).unwrap().model;
    let (short, long) = (text(20), text(100));
    let (batch, _) = PackedBatch::tree([short.as_slice(), long.as_slice()]);
    let targets = Targets { rows: vec![3], tokens: vec![7], ..Targets::default() };
    let error = model.log_probs(&batch, &targets).unwrap_err().to_string();
    assert!(error.contains("common rows") && error.contains("LongRoPE"), "{error}");
}
