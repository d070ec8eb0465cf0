//! Every EOS id of `config.json` and `generation_config.json` ends a completion.

use std::fs;
use std::path::Path;

use crate::common::{checkpoint, config, engine_config, requests, run};
use serde_json::{Value, json};
use spag_model::checkpoint::load_tokenizer;
use spag_model::generate::{FinishReason, Sampling};
use spag_model::{Checkpoint, Completion, Engine, Generate, GenerationConfig};
use spag_tests::{copy_folder, fixture, json};
use tempfile::TempDir;

/// A copy of the model with `eos_token_id` in one of its files.
fn with_eos_ids(file: &str, ids: Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("tiny-llama"), folder.path());
    let path = folder.path().join(file);
    let mut keys: Value = json(&path);
    keys["eos_token_id"] = ids;
    fs::write(path, keys.to_string()).unwrap();
    folder
}

fn complete(folder: &Path, config: &GenerationConfig) -> Vec<Completion> {
    let checkpoint = Checkpoint::load(folder).unwrap();
    Engine::new(&checkpoint, engine_config(16)).unwrap().generate(requests(config)).unwrap()
}

#[test]
fn any_eos_id_ends_a_completion_and_all_are_banned_before_min_new_tokens() {
    let plain = run(engine_config(16), requests(&config(Sampling::Greedy)));
    let (at, whole) = plain.iter().enumerate().find(|(_, done)| done.token_ids.len() > 12).unwrap();
    let token = whole.token_ids[4];
    let first = whole.token_ids.iter().position(|id| *id == token).unwrap();
    for (file, ids) in [
        ("config.json", json!([2, token])),
        ("config.json", json!(token)),
        ("generation_config.json", json!([999_999, token])),
    ] {
        let folder = with_eos_ids(file, ids.clone());
        let tokenizer = load_tokenizer(folder.path()).unwrap();
        // The trainer appends the tokenizer's own; ids without an embedding are never generated.
        assert_eq!((tokenizer.eos(), tokenizer.eos_ids()), (2, &[2, token][..]), "{file}: {ids}");
        let ended = &complete(folder.path(), &config(Sampling::Greedy))[at];
        assert_eq!((ended.finish, &ended.token_ids[..]), (FinishReason::Eos, &whole.token_ids[..=first]));
        assert_eq!(ended.text, checkpoint().tokenizer.decode(&whole.token_ids[..first]).unwrap());
        let held = GenerationConfig { min_new_tokens: 48, ..config(Sampling::at_temperature(1.5)) };
        let held = complete(folder.path(), &held);
        assert!(held.iter().all(|done| !done.token_ids.contains(&token) && !done.token_ids.contains(&2)));
    }
}
