//! Log-probabilities of prompts, and the most likely tokens at each position.

use std::sync::Arc;

use crate::common::{cases, checkpoint, config, engine_config, requests, run};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::{
    Event, FinishReason, LogProbs, PrefixSharing, Prompt, PromptRange, Sampling, Streamed, TokenLogProb,
};
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_tests::fixture;

fn scored(prompt: PromptRange, top: usize, max_new_tokens: usize) -> GenerationConfig {
    let log_probs = LogProbs { prompt: Some(prompt), top };
    GenerationConfig { log_probs, ..GenerationConfig { max_new_tokens, ..config(Sampling::Greedy) } }
}

/// ln p of every token at every position of `tokens` but the first, by a plain forward pass.
fn reference(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    let size = model.config().architecture.vocab_size as u32;
    let rows = (0..tokens.len() as u32 - 1).flat_map(|row| vec![row; size as usize]).collect();
    let targets = Targets { rows, tokens: (1..tokens.len()).flat_map(|_| 0..size).collect(), ..Targets::default() };
    let all = model.log_probs(&PackedBatch::new([tokens]), &targets).unwrap();
    all.chunks(size as usize).map(<[f32]>::to_vec).collect()
}

/// Compares with the row of a plain forward pass: the token's value and the most likely tokens.
fn check(got: &TokenLogProb, want: &[f32], top: usize, what: &str) {
    let close = |got: f32, want: f32| assert!((got - want).abs() < 1e-4, "{what}: {got}, not {want}");
    close(got.log_prob, want[got.token as usize]);
    assert_eq!(got.top.len(), top.min(want.len()), "{what}");
    let mut sorted: Vec<f32> = want.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    for (place, (token, log_prob)) in got.top.iter().enumerate() {
        close(*log_prob, want[*token as usize]);
        close(*log_prob, sorted[place]);
        if *token == got.token {
            assert_eq!(log_prob.to_bits(), got.log_prob.to_bits(), "{what}");
        }
    }
    let is_sorted = |pair: &[(u32, f32)]| pair[0].1 > pair[1].1 || pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0;
    assert!(got.top.windows(2).all(is_sorted), "{what}: {:?}", got.top);
}

#[test]
fn log_probabilities_equal_a_plain_forward_pass_for_every_family() {
    let mut folders: Vec<_> =
        std::fs::read_dir(fixture("families")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.push(fixture("tiny-llama"));
    let mut compared = 0;
    for folder in folders {
        let checkpoint = Checkpoint::load(&folder).unwrap();
        let mut prompts: Vec<Vec<u32>> = ["It has four legs, and knights ride on it. What is it?", "世界 🐎 ok"]
            .map(|text| checkpoint.tokenizer.encode_prompt(text, Default::default()).unwrap())
            .into();
        prompts.push(vec![3; 40]);
        let setting = EngineConfig { max_length: 128, pages: 60, max_step_tokens: 17, ..engine_config(16) };
        let config = Arc::new(scored(PromptRange::All, 5, 4));
        let requests =
            prompts.iter().map(|prompt| Request { prompt: prompt.clone().into(), seed: 0, config: config.clone() });
        let completions = Engine::new(&checkpoint, setting).unwrap().generate(requests.collect()).unwrap();
        for (done, prompt) in completions.iter().zip(&prompts) {
            let tokens = [&prompt[..], &done.token_ids].concat();
            let want = reference(&checkpoint.model, &tokens);
            let scores = done.prompt_log_probs.as_ref().unwrap();
            assert_eq!((scores.len(), &scores[0]), (prompt.len(), &None));
            for (position, got) in scores.iter().enumerate().skip(1) {
                let got = got.as_ref().unwrap();
                assert_eq!(got.token, prompt[position]);
                check(got, &want[position - 1], 5, &format!("{}, position {position}", folder.display()));
                compared += 1;
            }
            assert_eq!(done.top_log_probs.len(), done.token_ids.len());
            for (at, top) in done.top_log_probs.iter().enumerate() {
                let (token, log_prob) = (done.token_ids[at], done.model_log_probs[at]);
                // The greedy choice is the first of them, with the same bits.
                assert_eq!((top[0].0, top[0].1.to_bits()), (token, log_prob.to_bits()));
                let got = TokenLogProb { token, log_prob, top: top.clone() };
                check(&got, &want[prompt.len() + at - 1], 5, &format!("{}, new token {at}", folder.display()));
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

/// The data that must not depend on the batch, as bits.
fn bits(done: &Completion) -> (Vec<u32>, Vec<u32>, String) {
    let values = |one: &TokenLogProb| {
        let top = one.top.iter().flat_map(|(token, log_prob)| [*token, log_prob.to_bits()]);
        [one.token, one.log_prob.to_bits()].into_iter().chain(top).collect::<Vec<u32>>()
    };
    let prompt = done.prompt_log_probs.iter().flatten().flat_map(|one| one.as_ref().map_or(vec![7], values)).collect();
    let new = done.top_log_probs.iter().flatten().map(|(token, log_prob)| token ^ log_prob.to_bits());
    let new = new.chain(done.model_log_probs.iter().map(|log_prob| log_prob.to_bits())).collect();
    (prompt, new, done.text.clone())
}

/// Requests that score all, some or no positions, that generate or only score, and two with the same prompt.
fn mixed() -> Vec<Request> {
    let plain = requests(&config(Sampling::at_temperature(1.2)));
    let long = cases().iter().map(|case| case.prompt.clone()).collect::<String>();
    let long: String = long.chars().take(900).collect();
    let mut all = Vec::new();
    for (at, request) in plain.into_iter().enumerate() {
        let settings = match at % 5 {
            0 => scored(PromptRange::All, 3, 12),
            1 => scored(PromptRange::All, 0, 0),
            2 => scored(PromptRange::Positions(at..usize::MAX), 2, 0),
            3 => scored(PromptRange::Positions(1..6), 1, 12),
            _ => config(Sampling::at_temperature(1.2)),
        };
        all.push(Request { config: Arc::new(settings), ..request.clone() });
        if at % 5 == 0 {
            // The same prefix without scoring.
            all.push(request.clone());
        }
        if at % 5 == 1 {
            let prompt = Prompt::Text(format!("{}{long}", &long[..at]));
            all.push(Request { prompt, config: Arc::new(scored(PromptRange::All, 1, 0)), ..request });
        }
    }
    all
}

#[test]
fn log_probabilities_do_not_depend_on_the_batch() {
    let all = mixed();
    let base = EngineConfig { pages: 60 * 512 / 16, max_running: 60, ..engine_config(16) };
    let apart = EngineConfig { prefix_sharing: PrefixSharing::Off, ..base };
    let alone: Vec<_> = all.iter().map(|request| bits(&run(apart, vec![request.clone()])[0])).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut preemptions, mut cached) = (0, 0);
    for round in 0..12 {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.shuffle(&mut rng);
        let setting = EngineConfig {
            max_running: rng.random_range(1..=60),
            // In the largest passes, the logits of a prompt are computed in several chunks.
            max_step_tokens: if round % 4 == 1 { 6000 } else { rng.random_range(1..=200) },
            pages: if round % 2 == 0 { 34 } else { base.pages },
            prefix_sharing: if round % 4 == 3 { PrefixSharing::Off } else { PrefixSharing::On },
            ..base
        };
        let mut engine = Engine::new(&checkpoint(), setting).unwrap();
        let shuffled = order.iter().map(|index| all[*index].clone()).collect();
        for (index, completion) in order.iter().zip(engine.generate(shuffled).unwrap()) {
            assert_eq!(bits(&completion), alone[*index], "request {index}, {setting:?}");
        }
        preemptions += engine.stats().preemptions;
        cached += engine.stats().cached_tokens;
    }
    assert!(preemptions > 10 && cached > 1000, "{preemptions} preemptions, {cached} cached tokens");
}

#[test]
fn scoring_alone_computes_the_prompt_and_nothing_else() {
    let case = &cases()[3];
    let request = |config| Request { prompt: case.prompt.as_str().into(), seed: 0, config: Arc::new(config) };
    let mut engine = Engine::new(&checkpoint(), engine_config(16)).unwrap();
    let done = engine.generate(vec![request(scored(PromptRange::All, 0, 0))]).unwrap().remove(0);
    assert_eq!((done.token_ids.len(), done.finish, done.text.as_str()), (0, FinishReason::Length, ""));
    assert_eq!(done.prompt_log_probs.unwrap().len(), case.input_ids.len());
    let stats = engine.stats();
    // The last token is a target, not an input.
    assert_eq!((stats.computed_tokens as usize, stats.requests), (case.input_ids.len() - 1, 1));
    // A prompt of one token has nothing to score.
    let one = Request { prompt: vec![5].into(), ..request(scored(PromptRange::All, 2, 0)) };
    assert_eq!(engine.generate(vec![one]).unwrap()[0].prompt_log_probs, Some(vec![None]));
    // The longest prompt leaves no room for a token, and its last token needs none.
    for (given, scored_tokens) in [(512, 512), (513, 513), (514, 513)] {
        let longest = Request { prompt: vec![5; given].into(), ..request(scored(PromptRange::All, 0, 0)) };
        let done = engine.generate(vec![longest]).unwrap().remove(0);
        assert_eq!(done.prompt_log_probs.unwrap().len(), scored_tokens);
        assert_eq!(done.truncated_tokens, given - scored_tokens);
    }
}

/// Positions before the range come from the cache; those in it are computed, even if cached.
#[test]
fn cached_prefix_is_computed_if_its_log_probabilities_are_asked_for() {
    let case = cases().into_iter().max_by_key(|case| case.input_ids.len()).unwrap();
    let length = case.input_ids.len();
    assert!(length > 100);
    let mut engine = Engine::new(&checkpoint(), engine_config(16)).unwrap();
    let mut score = |range: PromptRange| {
        let config = Arc::new(scored(range, 1, 2));
        engine.generate(vec![Request { prompt: case.input_ids.clone().into(), seed: 0, config }]).unwrap().remove(0)
    };
    let whole = score(PromptRange::All);
    let again = score(PromptRange::All);
    assert_eq!((whole.cached_tokens, again.cached_tokens), (0, 0));
    assert_eq!(bits(&whole), bits(&again));
    let all = whole.prompt_log_probs.unwrap();
    for (from, to) in [(64, length), (70, 90), (1, 2), (length - 1, usize::MAX), (40, 40), (length + 5, length + 9)] {
        let part = score(PromptRange::Positions(from..to));
        let (from, to) = (from.min(length), to.min(length));
        assert_eq!(part.prompt_log_probs.unwrap(), all[from..to], "{from}..{to}");
        let needed = if from < to { from - 1 } else { length - 1 };
        assert_eq!(part.cached_tokens, needed, "{from}..{to}");
    }
}

#[test]
fn stream_reports_the_prompt_once_before_the_first_token() {
    let mut engine = Engine::new(&checkpoint(), EngineConfig { max_step_tokens: 7, ..engine_config(16) }).unwrap();
    for new in [0, 5] {
        let config =
            GenerationConfig { stream: Streamed::Text, min_new_tokens: new, ..scored(PromptRange::All, 2, new) };
        let prompt = cases()[3].prompt.as_str().into();
        let id = engine.submit(Request { prompt, seed: 0, config: Arc::new(config) }).unwrap();
        let mut events = Vec::new();
        while engine.unfinished() > 0 {
            events.extend(engine.step().unwrap());
        }
        assert_eq!(events.len(), 2 + new);
        let Event::Finished(done) = events.pop().unwrap().1 else { panic!("{events:?}") };
        let Event::Prompt(scores) = &events[0].1 else { panic!("{events:?}") };
        assert_eq!(Some(scores), done.prompt_log_probs.as_ref());
        for (at, (of, event)) in events[1..].iter().enumerate() {
            let Event::Token(token) = event else { panic!("{event:?}") };
            assert_eq!((*of, &token.token.top), (id, &done.top_log_probs[at]));
            assert_eq!(token.token.top.len(), 2);
        }
    }
}
