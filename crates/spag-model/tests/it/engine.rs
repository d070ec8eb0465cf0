//! Properties of the engine: results do not depend on the batch, memory is bounded, common prefixes are computed once.

use std::sync::Arc;

use crate::common::{cases, checkpoint, config, engine_config, requests, run};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::generate::{Event, PrefixSharing, Sampling};
use spag_model::{Completion, Engine, EngineConfig, Generate, GenerationConfig, Request};

/// The parts of a completion that must not depend on the batch, as bits.
fn result_bits(completion: &Completion) -> (Vec<u32>, Vec<u32>, Vec<u32>, String) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    let Completion { token_ids, text, model_log_probs, sampling_log_probs, .. } = completion;
    (token_ids.clone(), bits(model_log_probs), bits(sampling_log_probs), text.clone())
}

/// Greedy and sampled requests, alone and in batches of any order and size, with any chunk size, with and without
/// prefix sharing, and with so little memory that requests are preempted.
#[test]
fn results_do_not_depend_on_the_batch() {
    let sampled = Sampling::Random { temperature: 1.2, top_k: Some(400), top_p: Some(0.98) };
    for sampling in [Sampling::Greedy, Sampling::at_temperature(1.2), sampled] {
        let all = requests(&config(sampling));
        let base = engine_config(16);
        let alone: Vec<_> = all
            .iter()
            .map(|request| {
                result_bits(&run(EngineConfig { prefix_sharing: PrefixSharing::Off, ..base }, vec![request.clone()])[0])
            })
            .collect();
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut preemptions = 0;
        for round in 0..12 {
            let mut order: Vec<usize> = (0..all.len()).collect();
            order.shuffle(&mut rng);
            let setting = EngineConfig {
                max_running: rng.random_range(1..=30),
                max_step_tokens: rng.random_range(1..=200),
                pages: if round % 3 == 0 { 24 } else { base.pages },
                prefix_sharing: if round % 4 == 3 { PrefixSharing::Off } else { PrefixSharing::On },
                ..base
            };
            let mut engine = Engine::new(&checkpoint(), setting).unwrap();
            let shuffled = order.iter().map(|index| all[*index].clone()).collect();
            for (index, completion) in order.iter().zip(engine.generate(shuffled).unwrap()) {
                assert_eq!(result_bits(&completion), alone[*index], "request {index}, {setting:?}");
            }
            preemptions += engine.stats().preemptions;
        }
        assert!(preemptions > 10, "{preemptions}");
    }
}

/// Requests join and leave at every step; some are aborted.
#[test]
fn requests_can_join_and_abort_at_any_step() {
    let all = requests(&config(Sampling::at_temperature(1.0)));
    let want: Vec<_> = run(engine_config(16), all.clone()).iter().map(result_bits).collect();
    let mut engine = Engine::new(&checkpoint(), EngineConfig { max_running: 5, ..engine_config(16) }).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let (mut ids, mut dropped, mut completed) = (Vec::new(), Vec::new(), 0);
    while ids.len() < all.len() || engine.unfinished() > 0 {
        if ids.len() < all.len() && rng.random_bool(0.3) {
            ids.push(engine.submit(all[ids.len()].clone()).unwrap());
        }
        if rng.random_bool(0.02) && !ids.is_empty() {
            let index = rng.random_range(0..ids.len());
            engine.abort(ids[index]);
            dropped.push(index);
        }
        for (id, event) in engine.step().unwrap() {
            let index = ids.iter().position(|known| *known == id).unwrap();
            let Event::Finished(completion) = event else { panic!("{event:?}") };
            assert!(!dropped.contains(&index), "request {index} was dropped");
            assert_eq!(result_bits(&completion), want[index]);
            completed += 1;
        }
    }
    assert!(completed >= 15 && !dropped.is_empty(), "{completed} completed, {dropped:?} dropped");
    assert!(engine.step().unwrap().is_empty());
}

#[test]
fn repeated_prompt_is_served_from_the_cache() {
    let request = &requests(&config(Sampling::Greedy))[3];
    let mut engine = Engine::new(&checkpoint(), engine_config(16)).unwrap();
    let first = engine.generate(vec![request.clone()]).unwrap().remove(0);
    let before = engine.stats();
    let second = engine.generate(vec![request.clone()]).unwrap().remove(0);
    assert_eq!(result_bits(&first), result_bits(&second));
    assert_eq!((first.cached_tokens, second.cached_tokens), (0, first.prompt_tokens - 1));
    // The last prompt token, and each new token but the last.
    let computed = engine.stats().computed_tokens - before.computed_tokens;
    assert_eq!(computed as usize, second.token_ids.len());
}

/// Concurrent requests with a common prefix compute it once.
#[test]
fn common_prefix_is_computed_once() {
    let rules = &cases()[2].prompt;
    let tokenizer = checkpoint().tokenizer.clone();
    let config = Arc::new(GenerationConfig { max_new_tokens: 1, ..GenerationConfig::default() });
    let prompt = |i: usize| format!("{rules}{i} horses");
    let request = |i: usize| Request { prompt: prompt(i).into(), seed: 0, config: config.clone() };
    let requests: Vec<Request> = (0..20).map(request).collect();
    let asked: usize = (0..20).map(|i| 1 + tokenizer.encode(&prompt(i)).unwrap().len()).sum();
    for max_step_tokens in [7, 512] {
        let setting = EngineConfig { max_step_tokens, ..engine_config(4) };
        let mut engine = Engine::new(&checkpoint(), setting).unwrap();
        engine.generate(requests.clone()).unwrap();
        let stats = engine.stats();
        assert_eq!(stats.prompt_tokens as usize, asked);
        assert_eq!(stats.prompt_tokens - stats.cached_tokens, stats.computed_tokens);
        // The prefix once, and the rest of each.
        let most = asked / 20 + 20 * 16;
        assert!((stats.computed_tokens as usize) < most, "{} of {asked} computed", stats.computed_tokens);
        assert!(stats.hit_rate() > 0.6, "{}", stats.hit_rate());
    }
    let apart = EngineConfig { prefix_sharing: PrefixSharing::Off, ..engine_config(4) };
    let mut engine = Engine::new(&checkpoint(), apart).unwrap();
    engine.generate(requests).unwrap();
    assert_eq!((engine.stats().computed_tokens as usize, engine.stats().cached_tokens), (asked, 0));
}

/// A fraction of the memory suffices, as long as each request fits.
#[test]
fn preemption_does_not_change_results() {
    let all = requests(&config(Sampling::Greedy));
    let want: Vec<_> = run(engine_config(16), all.clone()).iter().map(result_bits).collect();
    let longest = cases().iter().map(|case| case.input_ids.len() + 48).max().unwrap();
    let setting = EngineConfig { pages: longest.div_ceil(16), ..engine_config(16) };
    let mut engine = Engine::new(&checkpoint(), setting).unwrap();
    let got: Vec<_> = engine.generate(all).unwrap().iter().map(result_bits).collect();
    assert_eq!(got, want);
    assert!(engine.stats().preemptions > 0 && engine.stats().recomputed_tokens > 0);
}
