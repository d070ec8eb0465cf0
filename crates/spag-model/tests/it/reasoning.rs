//! Reasoning with a budget: where it ends, what is forced, and that results do not depend on the batch.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_io::{PromptEnd, ReasoningRule, ReasoningTags};
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::{
    AllowedTokens, FinishReason, Grammar, GrammarState, LogProbs, LogitRules, ReasoningBudget, Sampling, SharedGrammar,
    Streamed,
};
use spag_model::{Completion, Engine, EngineConfig, Generate, GenerationConfig, Tokenizer};

use crate::common::{bits, checkpoint, config, engine_config, requests, run};

fn budget(tokenizer: &Tokenizer, (open, close): (&str, &str), prompt: PromptEnd, max_tokens: usize) -> ReasoningBudget {
    let tags = ReasoningTags::new(open, close).unwrap();
    let closing = tokenizer.encode_text(&format!("\n{close}\n")).unwrap();
    ReasoningBudget { tags, prompt, max_tokens, closing }
}

fn thinking(tags: (&str, &str), prompt: PromptEnd, max_tokens: usize) -> GenerationConfig {
    let reasoning = Some(budget(&checkpoint().tokenizer, tags, prompt, max_tokens));
    GenerationConfig { max_new_tokens: 6, reasoning, ..config(Sampling::at_temperature(1.0)) }
}

const TAGS: (&str, &str) = ("opened", "closed");

fn split(config: &GenerationConfig, completion: &Completion) -> spag_io::SplitCompletion {
    let budget = config.reasoning.as_ref().unwrap();
    ReasoningRule::Think(budget.tags.clone()).split(&completion.text, budget.prompt)
}

#[test]
fn reasoning_without_an_end_is_closed_by_the_engine_when_its_budget_is_used_up() {
    let config = thinking(TAGS, PromptEnd::Opened, 9);
    let closing = config.reasoning.clone().unwrap().closing;
    let mut closed = 0;
    for completion in run(engine_config(16), requests(&config)) {
        let reasoning = &completion.reasoning;
        if reasoning.is_unfinished {
            assert_eq!((completion.finish, reasoning.count), (FinishReason::Eos, completion.token_ids.len()));
            continue;
        }
        let forced = 9..9 + closing.len();
        assert_eq!((&reasoning.forced, reasoning.count), (&forced, forced.end));
        assert_eq!(completion.token_ids[forced.clone()], closing);
        for log_probs in [&completion.model_log_probs, &completion.sampling_log_probs] {
            assert_eq!(log_probs.len(), completion.token_ids.len());
            assert!(log_probs[forced.clone()].iter().all(|log_prob| *log_prob == 0.0));
            assert!(log_probs[forced.end..].iter().chain(&log_probs[..9]).all(|log_prob| *log_prob < 0.0));
        }
        let said = completion.token_ids.len() - forced.end;
        assert!(said == 6 && completion.finish == FinishReason::Length || said <= 6, "{completion:?}");
        assert!(completion.text.contains("closed") && split(&config, &completion).reasoning.is_some());
        closed += 1;
    }
    assert!(closed > 20, "{closed}");
}

/// A text that nothing opens has the limit of what is said.
#[test]
fn texts_without_tags_are_what_is_said() {
    let config = thinking(TAGS, PromptEnd::Plain, 9);
    let plain = GenerationConfig { reasoning: None, ..config.clone() };
    let (with, without) = (run(engine_config(16), requests(&config)), run(engine_config(16), requests(&plain)));
    for (with, without) in with.iter().zip(&without) {
        assert_eq!((bits(with), &with.text, with.finish), (bits(without), &without.text, without.finish));
        assert_eq!(with.reasoning, Default::default());
    }
}

/// Closing tags that a random model writes by itself: an ordinary letter.
#[test]
fn a_closing_tag_of_the_model_starts_the_limit_of_what_is_said() {
    let config = thinking(("(((", "e"), PromptEnd::Opened, 40);
    let (mut closed, mut said_more) = (0, 0);
    for completion in run(engine_config(16), requests(&config)) {
        let reasoning = &completion.reasoning;
        if reasoning.is_unfinished || !reasoning.forced.is_empty() {
            continue;
        }
        let said = completion.token_ids.len() - reasoning.count;
        assert!(said <= 6 && (said == 6) == (completion.finish == FinishReason::Length), "{completion:?}");
        let before = checkpoint().tokenizer.decode(&completion.token_ids[..reasoning.count]).unwrap();
        assert!(
            before.contains('e')
                && !checkpoint().tokenizer.decode(&completion.token_ids[..reasoning.count - 1]).unwrap().contains('e')
        );
        closed += 1;
        said_more += usize::from(said == 6);
    }
    assert!(closed > 10 && said_more > 5, "{closed} {said_more}");
}

#[test]
fn stop_strings_end_what_is_said_and_not_reasoning() {
    let stops = GenerationConfig { stop_strings: vec!["a".into()], ..thinking(("(((", "e"), PromptEnd::Opened, 30) };
    let (mut before, mut after) = (0, 0);
    for completion in run(engine_config(16), requests(&stops)) {
        let text = &completion.text;
        let Some(at) = text.find('e') else { continue };
        before += usize::from(text[..at].contains('a'));
        assert!(!text[at..].contains('a'), "{text:?}");
        after += usize::from(completion.finish == FinishReason::StopString);
    }
    assert!(before > 2 && after > 2, "{before} {after}");
}

/// Any batch, chunks and preemption, and a stream.
#[test]
fn forced_tokens_do_not_depend_on_the_batch() {
    let config = thinking(TAGS, PromptEnd::Opened, 25);
    let all = requests(&config);
    let base = engine_config(16);
    let alone: Vec<_> = all.iter().map(|request| run(base, vec![request.clone()]).remove(0)).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut preemptions = 0;
    for round in 0..8 {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.shuffle(&mut rng);
        let max_step_tokens = rng.random_range(1..=60);
        let pages = if round % 2 == 0 { 24 } else { base.pages };
        let setting = EngineConfig { max_running: rng.random_range(2..=30), max_step_tokens, pages, ..base };
        let mut engine = Engine::new(&checkpoint(), setting).unwrap();
        let shuffled = order.iter().map(|index| all[*index].clone()).collect();
        for (index, completion) in order.iter().zip(engine.generate(shuffled).unwrap()) {
            assert_eq!((bits(&completion), &completion.text), (bits(&alone[*index]), &alone[*index].text));
            assert_eq!(completion.reasoning, alone[*index].reasoning);
        }
        preemptions += engine.stats().preemptions;
    }
    assert!(preemptions > 5, "{preemptions}");
    let streamed = GenerationConfig { stream: Streamed::Text, ..config };
    for (with, without) in run(base, requests(&streamed)).iter().zip(&alone) {
        assert_eq!((&with.token_ids, &with.text), (&without.token_ids, &without.text));
    }
}

/// The training pass computes the log-probabilities of all tokens that were drawn, with forced tokens as context.
#[test]
fn log_probs_around_forced_tokens_are_those_of_the_training_pass() {
    let config = thinking(TAGS, PromptEnd::Opened, 12);
    let model = checkpoint().model;
    for (request, completion) in requests(&config).into_iter().zip(run(engine_config(16), requests(&config))) {
        let spag_model::generate::Prompt::Text(prompt) = request.prompt else { panic!() };
        let prompt = checkpoint().tokenizer.encode_prompt(&prompt, Default::default()).unwrap();
        let tokens = [&prompt[..], &completion.token_ids].concat();
        let drawn: Vec<usize> =
            (0..completion.token_ids.len()).filter(|at| !completion.reasoning.forced.contains(at)).collect();
        let rows = drawn.iter().map(|at| (prompt.len() + at) as u32 - 1).collect();
        let targets =
            Targets { rows, tokens: drawn.iter().map(|at| completion.token_ids[*at]).collect(), ..Targets::default() };
        let learned = model.log_probs(&PackedBatch::new([&tokens[..]]), &targets).unwrap();
        for (at, learned) in drawn.iter().zip(learned) {
            assert_eq!(learned.to_bits(), completion.model_log_probs[*at].to_bits(), "token {at}");
        }
    }
}

/// Allows one token, again and again.
struct Only(u32);

impl Grammar for Only {
    fn start(&self) -> Box<dyn GrammarState> {
        Box::new(Self(self.0))
    }
}

impl GrammarState for Only {
    fn allowed(&mut self) -> Result<AllowedTokens, String> {
        let mut words = vec![0; self.0 as usize / 32 + 1];
        words[self.0 as usize / 32] = 1 << (self.0 % 32);
        Ok(AllowedTokens { words, end: false })
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        if token == self.0 { Ok(()) } else { Err("another token".into()) }
    }
}

#[test]
fn grammars_hold_what_is_said_and_not_reasoning() {
    let only = *checkpoint().tokenizer.encode_text("a").unwrap().last().unwrap();
    let grammar = Some(SharedGrammar::new(Only(only)));
    let config = GenerationConfig { grammar, ..thinking(TAGS, PromptEnd::Opened, 7) };
    let mut thought = 0;
    for completion in run(engine_config(16), requests(&config)) {
        if completion.reasoning.is_unfinished {
            continue;
        }
        let (reasoning, said) = completion.token_ids.split_at(completion.reasoning.count);
        assert_eq!(said, [only; 6]);
        thought += usize::from(reasoning.iter().any(|token| *token != only));
    }
    assert!(thought > 20, "{thought}");
}

#[test]
fn invalid_budgets_are_refused_by_name() {
    let valid = thinking(TAGS, PromptEnd::Opened, 1);
    assert!(valid.check().is_ok());
    let with = |change: fn(&mut ReasoningBudget)| {
        let mut config = valid.clone();
        change(config.reasoning.as_mut().unwrap());
        config.check().unwrap_err().to_string()
    };
    assert!(with(|budget| budget.max_tokens = 0).contains("max_reasoning_tokens"));
    assert!(with(|budget| budget.closing.clear()).contains("closing tag"));
    // A prompt leaves room for the whole completion, and pages for it.
    let mut engine = Engine::new(&checkpoint(), EngineConfig { max_length: 40, ..engine_config(16) }).unwrap();
    let long = requests(&thinking(TAGS, PromptEnd::Opened, 200)).remove(0);
    let error = engine.submit(long).unwrap_err().to_string();
    assert!(error.contains("40"), "{error}");
}

/// With penalties and the likeliest tokens asked for.
#[test]
fn forced_tokens_count_as_context_of_penalties_and_have_no_likeliest_tokens() {
    let rules = LogitRules { presence_penalty: 0.5, ..LogitRules::default() };
    let log_probs = LogProbs { prompt: None, top: 3 };
    let config = Arc::new(GenerationConfig { rules, log_probs, ..thinking(TAGS, PromptEnd::Opened, 5) });
    for completion in run(engine_config(16), requests(&config)) {
        assert_eq!(completion.top_log_probs.len(), completion.token_ids.len());
        for (at, top) in completion.top_log_probs.iter().enumerate() {
            assert_eq!(top.is_empty(), completion.reasoning.forced.contains(&at));
        }
    }
}
