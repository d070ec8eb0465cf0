//! Events of requests: streamed tokens and texts, and failures of single requests.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::{cases, checkpoint, config, engine_config, requests, run};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::generate::{
    CompletionText, EngineLoad, EosRule, Event, FinishReason, LogProbs, Overflow, Prompt, PromptRange, RequestError,
    RequestId, Sampling, Streamed, TokenEvent,
};
use spag_model::tokenizer::SpecialTokens;
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Request};
use spag_tests::{change_tensor, copy_folder, fixture};

/// All events of all requests, by request.
fn events(engine: &mut Engine, requests: Vec<Request>) -> Vec<Vec<Event>> {
    let ids: Vec<RequestId> = requests.into_iter().map(|request| engine.submit(request).unwrap()).collect();
    let mut all: HashMap<RequestId, Vec<Event>> = HashMap::new();
    while engine.unfinished() > 0 {
        for (id, event) in engine.step().unwrap() {
            all.entry(id).or_default().push(event);
        }
    }
    ids.iter().map(|id| all.remove(id).unwrap()).collect()
}

/// The completion in the last event, and the tokens before it.
fn finished(events: Vec<Event>) -> (Vec<TokenEvent>, Completion) {
    let (mut tokens, mut completion) = (Vec::new(), None);
    for event in events {
        assert!(completion.is_none(), "an event after the last");
        match event {
            Event::Token(token) => tokens.push(token),
            Event::Finished(done) => completion = Some(done),
            other => panic!("{other:?}"),
        }
    }
    (tokens, completion.unwrap())
}

/// Nearly uniform sampling that includes EOS.
fn any_token() -> GenerationConfig {
    GenerationConfig {
        max_new_tokens: 60,
        sampling: Sampling::at_temperature(1e4),
        eos: EosRule::Ignored,
        ..GenerationConfig::default()
    }
}

/// Text prompts, and random tokens, which may end within a character.
fn prompts(checkpoint: &Checkpoint, rng: &mut ChaCha8Rng) -> Vec<Prompt> {
    let vocabulary = checkpoint.tokenizer.vocab_size().min(checkpoint.model.config().architecture.vocab_size) as u32;
    let mut prompts: Vec<Prompt> = ["A horse", "two  blanks ", "世界 🐎", "x"].map(Prompt::from).into();
    for length in [1, 2, 5, 40] {
        prompts.push(Prompt::Tokens((0..length).map(|_| rng.random_range(0..vocabulary)).collect()));
    }
    prompts
}

/// Strings that occur in `text` or share a prefix with it, if it is long enough.
fn stops(text: &str, rng: &mut ChaCha8Rng) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() < 30 {
        return vec!["never said 4711".to_owned()];
    }
    let from = rng.random_range(0..characters.len() - 8);
    let stop: String = characters[from..from + rng.random_range(1..8)].iter().collect();
    let begun: String = characters[from / 2..from / 2 + 3].iter().chain(&['4', '7', '1', '1']).collect();
    vec![begun, stop]
}

/// Random tokens of SentencePiece, decoded by a pipeline and by its own decoder, and of byte-level tokenizers.
#[test]
fn texts_of_the_tokens_add_up_to_the_text_of_the_completion() {
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    for model in ["tiny-llama", "families/llama2-bin", "families/qwen2", "families/llama3", "families/baichuan2-7b"] {
        let checkpoint = Checkpoint::load(fixture(model)).unwrap();
        let setting = EngineConfig { max_length: 128, pages: 200, ..engine_config(16) };
        let mut engine = Engine::new(&checkpoint, setting).unwrap();
        let (mut all, mut with_text, mut stopped) = (0, 0, 0);
        for text in [CompletionText::Alone, CompletionText::Continued, CompletionText::AfterPrompt] {
            let base = GenerationConfig { text, ..any_token() };
            let request = |config: &GenerationConfig, (seed, prompt): (usize, &Prompt)| Request {
                prompt: prompt.clone(),
                seed: seed as u64,
                config: Arc::new(config.clone()),
            };
            for _ in 0..4 {
                let prompts = prompts(&checkpoint, &mut rng);
                let plain = prompts.iter().enumerate().map(|prompt| request(&base, prompt)).collect();
                let plain = engine.generate(plain).unwrap();
                let texts: Vec<Vec<String>> = plain.iter().map(|done| stops(&done.text, &mut rng)).collect();
                for stops in [None, Some(texts)] {
                    let config = |at: usize| GenerationConfig {
                        stop_strings: stops.as_ref().map_or(Vec::new(), |stops| stops[at].clone()),
                        ..base.clone()
                    };
                    let unstreamed = prompts.iter().enumerate().map(|prompt| request(&config(prompt.0), prompt));
                    let unstreamed = engine.generate(unstreamed.collect()).unwrap();
                    let streamed = prompts.iter().enumerate().map(|prompt| {
                        request(&GenerationConfig { stream: Streamed::Text, ..config(prompt.0) }, prompt)
                    });
                    for (events, want) in events(&mut engine, streamed.collect()).into_iter().zip(unstreamed) {
                        let (tokens, done) = finished(events);
                        assert_eq!(done.text, want.text, "{model}, {text:?}");
                        assert_eq!((&done.token_ids, done.finish), (&want.token_ids, want.finish));
                        let said: String = tokens.iter().map(|token| token.text.as_str()).collect();
                        assert_eq!(said, done.text, "{model}, {text:?}: {:?}", done.token_ids);
                        let ids: Vec<u32> = tokens.iter().map(|token| token.token.token).collect();
                        let log_probs: Vec<f32> = tokens.iter().map(|token| token.token.log_prob).collect();
                        assert_eq!((ids, log_probs), (done.token_ids, done.model_log_probs));
                        stopped += usize::from(done.finish == FinishReason::StopString);
                        if text != CompletionText::AfterPrompt {
                            all += tokens.len();
                            with_text += tokens.iter().filter(|token| !token.text.is_empty()).count();
                        }
                    }
                }
            }
        }
        assert!(stopped > 30 && with_text > all / 5, "{model}: {stopped} stopped, {with_text} of {all} with text");
    }
}

#[test]
fn text_may_begin_with_the_blank_after_the_prompt() {
    let tokenizer = checkpoint().tokenizer.clone();
    let of = |text| run(engine_config(16), requests(&GenerationConfig { text, ..config(Sampling::Greedy) }));
    let (alone, continued) = (of(CompletionText::Alone), of(CompletionText::Continued));
    let mut with_blank = 0;
    for ((alone, continued), case) in alone.iter().zip(&continued).zip(cases()) {
        assert_eq!(continued.text.strip_prefix(' ').unwrap_or(&continued.text), alone.text);
        let whole = tokenizer.decode(&[&case.input_ids[..], &continued.token_ids].concat()).unwrap();
        assert_eq!(tokenizer.decode(&case.input_ids).unwrap() + &continued.text, whole);
        with_blank += usize::from(continued.text.starts_with(' '));
    }
    assert!(with_blank > 0);
}

#[test]
fn ignored_eos_does_not_end_a_completion() {
    let config = GenerationConfig { eos: EosRule::Ignored, ..config(Sampling::at_temperature(1.5)) };
    let completions = run(engine_config(16), requests(&config));
    assert!(completions.iter().all(|done| done.token_ids.len() == 48 && done.finish == FinishReason::Length));
    assert!(completions.iter().any(|done| done.token_ids[..40].contains(&2)));
    // A minimum length does not ban it either.
    let held = GenerationConfig { min_new_tokens: 48, ..config };
    assert_eq!(run(engine_config(16), requests(&held)), completions);
}

#[test]
fn prompt_of_tokens_is_taken_as_it_is() {
    let config = config(Sampling::Greedy);
    let tokens: Vec<Request> = requests(&config)
        .into_iter()
        .zip(cases())
        .map(|(request, case)| Request { prompt: case.input_ids.into(), ..request })
        .collect();
    assert_eq!(run(engine_config(16), tokens), run(engine_config(16), requests(&config)));
}

#[test]
fn bad_requests_are_told_apart_by_type() {
    let checkpoint = checkpoint();
    let mut engine = Engine::new(&checkpoint, EngineConfig { max_length: 64, pages: 3, ..engine_config(16) }).unwrap();
    let mut refused = |prompt: Prompt, config: GenerationConfig| {
        let error = engine.submit(Request { prompt, seed: 0, config: Arc::new(config) }).unwrap_err();
        assert_eq!(engine.unfinished(), 0);
        error
    };
    let tokens = |max_new_tokens| GenerationConfig { max_new_tokens, ..GenerationConfig::default() };
    let whole = GenerationConfig { overflow: Overflow::Refuse, ..tokens(8) };
    let too_long = RequestError::PromptTooLong { prompt: 57, max_new_tokens: 8, max_length: 64 };
    assert_eq!(refused(vec![5; 57].into(), whole), too_long);
    assert!(matches!(refused(vec![5; 56].into(), tokens(8)), RequestError::TooFewPages { needed: 4, .. }));
    assert_eq!(refused("a".into(), tokens(64)), RequestError::NoRoom { max_new_tokens: 64, max_length: 64 });
    assert_eq!(refused(vec![].into(), tokens(8)), RequestError::EmptyPrompt);
    let unknown = RequestError::UnknownToken { token: 1000, position: 1, vocabulary: 1000 };
    assert_eq!(refused(vec![1, 1000, 3].into(), tokens(8)), unknown);
    assert!(matches!(refused("a".into(), tokens(0)), RequestError::Setting(_)));
    let many = LogProbs { prompt: Some(PromptRange::All), top: 21 };
    assert!(matches!(refused("a".into(), GenerationConfig { log_probs: many, ..tokens(8) }), RequestError::Setting(_)));
    let cold = GenerationConfig { sampling: Sampling::at_temperature(0.0), ..tokens(8) };
    assert!(matches!(refused("a".into(), cold), RequestError::Setting(what) if what.contains("temperature")));
}

#[test]
fn request_that_may_say_nothing_fails_alone() {
    let mut mixed = requests(&config(Sampling::Greedy));
    let silent = GenerationConfig { min_new_tokens: 2, stop_tokens: (0..1000).collect(), ..config(Sampling::Greedy) };
    mixed.insert(3, Request { config: Arc::new(silent), ..mixed[3].clone() });
    let mut engine = Engine::new(&checkpoint(), engine_config(16)).unwrap();
    let mut events = events(&mut engine, mixed);
    assert_eq!(events.remove(3), [Event::Failed(RequestError::NoneAllowed)]);
    for (events, want) in events.into_iter().zip(run(engine_config(16), requests(&config(Sampling::Greedy)))) {
        assert_eq!(finished(events).1.token_ids, want.token_ids);
    }
}

/// A copy of the model with one token whose attention values overflow in the first layer. One column of the hidden states is
/// zero for all other tokens.
fn with_overflowing_token(bad: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("tiny-llama"), folder.path());
    let column_of = |name: &str, value: &dyn Fn(usize) -> f32| {
        change_tensor(folder.path(), name, |weights, shape| {
            weights.chunks_mut(shape[1]).enumerate().for_each(|(row, weights)| weights[0] = value(row));
        });
    };
    column_of("model.embed_tokens.weight", &|token| if token == bad { 1000.0 } else { 0.0 });
    column_of("model.layers.0.self_attn.v_proj.weight", &|_| f32::MAX);
    let layers = checkpoint().model.config().architecture.num_hidden_layers;
    for layer in 0..layers {
        for name in ["self_attn.o_proj", "mlp.down_proj"] {
            change_tensor(folder.path(), &format!("model.layers.{layer}.{name}.weight"), |weights, shape| {
                weights[..shape[1]].fill(0.0);
            });
        }
    }
    folder
}

/// What their rows leave in the KV cache does not affect others.
#[test]
fn request_with_logits_that_are_not_finite_fails_alone() {
    let bad = 999;
    let folder = with_overflowing_token(bad);
    let checkpoint = Checkpoint::load(folder.path()).unwrap();
    // So few pages that those of failed requests are reused.
    let setting = EngineConfig { pages: 40, max_running: 6, ..engine_config(16) };
    // The token itself is banned.
    let safe = GenerationConfig { min_new_tokens: 48, stop_tokens: vec![bad as u32], ..config(Sampling::Greedy) };
    let plain = requests(&safe);
    let alone = Engine::new(&checkpoint, setting).unwrap().generate(plain.clone()).unwrap();
    let mut engine = Engine::new(&checkpoint, setting).unwrap();
    let scored = LogProbs { prompt: Some(PromptRange::All), top: 0 };
    for log_probs in [LogProbs::default(), scored] {
        let failing = |case: usize| {
            let mut tokens = cases()[case].input_ids.clone();
            tokens.push(bad as u32);
            tokens.extend([5, 6, 7]);
            let config = GenerationConfig { log_probs: log_probs.clone(), ..config(Sampling::Greedy) };
            Request { prompt: tokens.into(), seed: 0, config: Arc::new(config) }
        };
        let mixed: Vec<Request> =
            plain.iter().enumerate().flat_map(|(at, request)| [request.clone(), failing(at)]).collect();
        for (at, mut events) in events(&mut engine, mixed).into_iter().enumerate() {
            if at % 2 == 0 {
                let done = finished(events).1;
                assert_eq!((&done.token_ids, &done.model_log_probs), {
                    let want = &alone[at / 2];
                    (&want.token_ids, &want.model_log_probs)
                });
            } else {
                let path = folder.path().to_owned();
                assert_eq!(
                    (events.pop(), events.len()),
                    (Some(Event::Failed(RequestError::LogitsNotFinite { path })), 0)
                );
            }
        }
    }
    // With all requests at once, an error names the checkpoint.
    let request = Request { prompt: vec![bad as u32].into(), seed: 0, config: plain[0].config.clone() };
    let error = engine.generate(vec![plain[0].clone(), request]).unwrap_err();
    assert!(matches!(error, spag_model::Error::Request(RequestError::LogitsNotFinite { .. })), "{error}");
    assert_eq!(engine.unfinished(), 0);
}

#[test]
fn aborted_requests_free_their_pages_at_once() {
    let mut engine = Engine::new(&checkpoint(), EngineConfig { max_running: 3, ..engine_config(16) }).unwrap();
    let streamed = GenerationConfig { stream: Streamed::Text, ..config(Sampling::at_temperature(1.0)) };
    let ids: Vec<RequestId> =
        requests(&streamed).into_iter().take(8).map(|request| engine.submit(request).unwrap()).collect();
    for _ in 0..3 {
        engine.step().unwrap();
    }
    let load = engine.load();
    assert_eq!((load.running, load.waiting), (3, 5));
    assert!(load.pages_in_use >= 3, "{load:?}");
    ids.into_iter().for_each(|id| engine.abort(id));
    assert_eq!(engine.load(), EngineLoad { waiting: 0, running: 0, pages_in_use: 0, pages: load.pages });
    assert!(engine.step().unwrap().is_empty());
}

#[test]
fn special_tokens_of_a_text_follow_the_setting_and_those_of_tokens_do_not() {
    let config = |special_tokens| GenerationConfig { special_tokens, max_new_tokens: 4, ..GenerationConfig::default() };
    let request = |prompt: Prompt, special| Request { prompt, seed: 0, config: Arc::new(config(special)) };
    let done = run(
        engine_config(16),
        vec![
            request("</s>".into(), SpecialTokens::Matched),
            request(vec![1, 2].into(), SpecialTokens::AsText),
            request("</s>".into(), SpecialTokens::AsText),
        ],
    );
    assert_eq!((done[0].prompt_tokens, &done[0].token_ids), (2, &done[1].token_ids));
    assert!(done[2].prompt_tokens > 2);
}
