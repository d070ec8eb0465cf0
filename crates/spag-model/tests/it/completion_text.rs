//! The text of a completion with the reference's decoding.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use spag_model::generate::{CompletionText, FinishReason, Sampling};
use spag_model::tokenizer::{Detokenizer, SpecialTokens};
use spag_model::{Checkpoint, Completion, Engine, Generate, GenerationConfig, Request, Tokenizer};
use spag_tests::{copy_folder, fixture};

use crate::common::{cases, checkpoint, config, engine_config, requests, run};

fn after_prompt() -> GenerationConfig {
    GenerationConfig { text: CompletionText::AfterPrompt, ..config(Sampling::Greedy) }
}

/// The id of an ordinary token by its text in mid-sentence.
fn piece(tokenizer: &Tokenizer, prompt: &[u32], text: &str) -> u32 {
    (3..1000).find(|id| tokenizer.decode_after(prompt, &[*id]).unwrap() == text).unwrap()
}

#[test]
fn text_after_a_prompt_is_that_of_both_without_that_of_the_prompt() {
    let tokenizer = checkpoint().tokenizer.clone();
    let (alone, after) = (run(engine_config(16), requests(&config(Sampling::Greedy))), after_prompt());
    let mut with_blank = 0;
    for ((got, alone), case) in run(engine_config(16), requests(&after)).iter().zip(&alone).zip(cases()) {
        assert_eq!(got.token_ids, alone.token_ids);
        let whole = tokenizer.decode(&[&case.input_ids[..], &got.token_ids].concat()).unwrap();
        let prompt = tokenizer.decode(&case.input_ids).unwrap();
        assert_eq!(got.text, whole.strip_prefix(&prompt).unwrap());
        assert_eq!(got.text.strip_prefix(' ').unwrap_or(&got.text), alone.text);
        with_blank += usize::from(got.text.starts_with(' '));
    }
    assert!(with_blank > 0);
}

#[test]
fn text_after_a_prompt_that_was_cut_is_the_same() {
    let tokenizer = checkpoint().tokenizer.clone();
    let ids = tokenizer.encode("It has four legs, and knights ride on it. What is it?").unwrap();
    let next = tokenizer.encode("A horse").unwrap();
    for cut in 0..ids.len() {
        assert_eq!(tokenizer.decode_after(&ids[cut..], &next).unwrap(), " A horse", "{cut}");
    }
    assert_eq!(tokenizer.decode_after(&[], &next).unwrap(), "A horse");
}

#[test]
fn text_ends_at_an_eos_that_ordinary_tokens_spell() {
    let tokenizer = checkpoint().tokenizer.clone();
    let prompt = tokenizer.encode_prompt("What is it?", SpecialTokens::Matched).unwrap();
    let spelled: Vec<u32> = ["<", "/", "s", ">"].iter().map(|text| piece(&tokenizer, &prompt, text)).collect();
    let horse = tokenizer.encode("A horse").unwrap();
    let all = [&horse[..], &spelled, &horse].concat();
    assert_eq!(tokenizer.decode_after(&prompt, &all).unwrap(), " A horse");
    assert_eq!(tokenizer.decode(&all).unwrap(), "A horse</s> A horse");
}

/// A copy of the model with another EOS token.
fn with_eos(eos: &str) -> Checkpoint {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("tiny-llama"), folder.path());
    let path = folder.path().join("tokenizer_config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["eos_token"] = json!(eos);
    fs::write(&path, config.to_string()).unwrap();
    Checkpoint::load(folder.path()).unwrap()
}

#[test]
fn generation_stops_at_an_eos_that_ordinary_tokens_spell() {
    let tokenizer_json: Value =
        serde_json::from_slice(&fs::read(fixture("tiny-llama/tokenizer.json")).unwrap()).unwrap();
    let pieces = tokenizer_json["model"]["vocab"].as_object().unwrap();
    let completed = run(engine_config(16), requests(&after_prompt()));
    // A token that only occurs in the text as part of others.
    let find = |done: &Completion| {
        let inside = |(text, id): (&String, &Value)| {
            let id = id.as_u64().unwrap() as u32;
            (text.is_ascii() && text.len() > 1 && id > 2 && !done.token_ids.contains(&id)).then(|| text.clone())
        };
        pieces.iter().filter_map(inside).find(|text| done.text.find(text).is_some_and(|at| at > 4))
    };
    let (at, eos) = completed.iter().enumerate().find_map(|(at, done)| Some((at, find(done)?))).unwrap();
    let checkpoint = with_eos(&eos);
    let complete = |config: GenerationConfig| {
        let request = Request { config: Arc::new(config), ..requests(&after_prompt())[at].clone() };
        Engine::new(&checkpoint, engine_config(16)).unwrap().generate(vec![request]).unwrap().remove(0)
    };
    let whole = &completed[at];
    let stopped = complete(after_prompt());
    assert_eq!(stopped.text, whole.text[..whole.text.find(&eos).unwrap()]);
    assert_eq!(stopped.finish, FinishReason::StopString);
    assert!(stopped.token_ids.len() < whole.token_ids.len() && whole.token_ids.starts_with(&stopped.token_ids));
    // The text also ends there if the completion must continue, but not if it is decoded alone.
    let least = whole.token_ids.len().min(48);
    let held = complete(GenerationConfig { min_new_tokens: least, ..after_prompt() });
    assert_eq!((&held.text, held.token_ids.len() >= least), (&stopped.text, true));
    assert!(complete(config(Sampling::Greedy)).text.contains(&eos));
}

#[test]
fn stop_strings_are_searched_in_the_text_after_the_prompt() {
    let whole = run(engine_config(16), requests(&after_prompt()));
    let (at, done) = whole.iter().enumerate().find(|(_, done)| done.text.starts_with(' ')).unwrap();
    // Only this text has the leading blank.
    let stop = done.text.chars().take(3).collect::<String>();
    let stopped = |config: GenerationConfig| {
        let config = Arc::new(GenerationConfig { stop_strings: vec![stop.clone()], ..config });
        run(engine_config(16), vec![Request { config, ..requests(&after_prompt())[at].clone() }]).remove(0)
    };
    let got = stopped(after_prompt());
    assert_eq!((got.text.as_str(), got.finish), ("", FinishReason::StopString));
    assert!(!stopped(config(Sampling::Greedy)).text.is_empty());
}

#[test]
fn detokenizer_after_a_prompt_returns_what_follows_it() {
    let tokenizer = checkpoint().tokenizer.clone();
    let prompt = tokenizer.encode("It has four legs.").unwrap();
    for text in ["A horse", "é世界 🐎", "", "  two"] {
        let ids = tokenizer.encode(text).unwrap();
        let mut detokenizer = Detokenizer::after(&prompt);
        let mut all = String::new();
        for id in &ids {
            all.push_str(&detokenizer.push(&tokenizer, *id).unwrap());
        }
        all.push_str(&detokenizer.finish());
        assert_eq!(all, tokenizer.decode_after(&prompt, &ids).unwrap());
    }
}
