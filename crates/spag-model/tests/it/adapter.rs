//! Adapters in PEFT's format, against the log-probabilities of PEFT 0.21.2 with PyTorch (`tests/fixtures/peft`, by
//! `scripts/peft-fixtures.py`).

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use spag_model::{Adapter, Checkpoint, LoadOptions, PackedBatch, Targets, WeightDtype};
use spag_tests::fixture;
use tempfile::TempDir;

fn base() -> Checkpoint {
    Checkpoint::load(fixture("tiny-llama")).unwrap()
}

fn keys(name: &str) -> Map<String, Value> {
    let path = fixture("peft").join(name).join("adapter_config.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn log_probs(model: &Checkpoint, ids: &[u32]) -> Vec<f32> {
    let rows = (0..ids.len() as u32 - 1).collect();
    let targets = Targets { rows, tokens: ids[1..].to_vec(), ..Targets::default() };
    model.model.log_probs(&PackedBatch::new([ids]), &targets).unwrap()
}

/// Half of the linear layers; and all of them, with other ranks and alphas by pattern and `use_rslora`.
#[test]
fn merged_model_has_the_log_probabilities_of_peft() {
    for name in ["attention", "patterns"] {
        let folder = fixture("peft").join(name);
        let expected: Value = serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
        let ids: Vec<u32> = serde_json::from_value(expected["ids"].clone()).unwrap();
        let wanted: Vec<f64> = serde_json::from_value(expected["log_probs"].clone()).unwrap();
        for (dtype, tolerance) in [(WeightDtype::F32, 1e-5), (WeightDtype::Bf16, 0.1)] {
            let options = LoadOptions { dtype, ..LoadOptions::default() };
            let checkpoint = Checkpoint::load_with(fixture("tiny-llama"), &options).unwrap();
            let before = log_probs(&checkpoint, &ids);
            let adapter = Adapter::load(&folder, &checkpoint.model.config().architecture).unwrap();
            assert_eq!(adapter.config().base(), Some("tiny-llama"));
            adapter.merge_into(checkpoint.model.parameters()).unwrap();
            let merged = log_probs(&checkpoint, &ids);
            let error = |found: &[f32]| {
                found.iter().zip(&wanted).map(|(a, b)| (f64::from(*a) - b).abs() / b.abs()).fold(0.0, f64::max)
            };
            assert!(error(&merged) < tolerance && error(&before) > 0.02, "{name} {dtype}: {}", error(&merged));
        }
    }
}

/// A copy of a fixture whose settings `change` alters.
fn altered(name: &str, change: impl FnOnce(&mut Map<String, Value>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = fixture("peft").join(name);
    fs::copy(from.join("adapter_model.safetensors"), folder.path().join("adapter_model.safetensors")).unwrap();
    let mut keys = keys(name);
    change(&mut keys);
    fs::write(folder.path().join("adapter_config.json"), serde_json::to_vec(&keys).unwrap()).unwrap();
    folder
}

fn refused(folder: &Path) -> String {
    Adapter::load(folder, &base().model.config().architecture).unwrap_err().to_string()
}

#[test]
fn settings_that_are_not_supported_are_refused_by_name() {
    for (key, value, expected) in [
        ("peft_type", json!("IA3"), "peft_type"),
        ("r", json!(0), "r: expected a whole number from 1"),
        ("r", json!(1e30), "r: expected"),
        ("r", Value::Null, "r: it is not set"),
        ("lora_alpha", json!("8"), "lora_alpha"),
        ("use_dora", json!(true), "use_dora"),
        ("fan_in_fan_out", json!(true), "fan_in_fan_out"),
        ("bias", json!("all"), "bias"),
        ("modules_to_save", json!(["lm_head"]), "modules_to_save"),
        ("init_lora_weights", json!("pissa"), "init_lora_weights"),
        ("target_modules", json!(["q_proj", "query"]), "\"query\", which is no linear layer"),
        ("target_modules", json!(["lm_head"]), "\"lm_head\""),
        ("target_modules", json!(".*_proj"), "regular expression"),
        ("target_modules", json!([]), "target_modules"),
        ("rank_pattern", json!({"layers.[01].*": 2}), "regular expression"),
        ("rank_pattern", json!({"q_proj": -2}), "rank_pattern"),
        ("a_key_of_the_future", json!(3), "a_key_of_the_future"),
    ] {
        let folder = altered("attention", |keys| {
            keys.insert(key.to_owned(), value.clone());
        });
        let said = refused(folder.path());
        assert!(said.contains(expected) && said.contains(folder.path().to_str().unwrap()), "{key} {value}: {said}");
    }
    // What PEFT ignores.
    let unknown = altered("attention", |keys| {
        keys.extend([("a_key_of_the_future".to_owned(), Value::Null), ("another".to_owned(), json!(false))]);
    });
    assert!(Adapter::load(unknown.path(), &base().model.config().architecture).is_ok());
}

#[test]
fn matrices_that_do_not_fit_the_settings_are_named() {
    let other_rank = altered("attention", |keys| {
        keys.insert("r".to_owned(), json!(8));
    });
    let said = refused(other_rank.path());
    assert!(said.contains("lora_A.weight") && said.contains("[4, 64]") && said.contains("[8, 64]"), "{said}");
    let more = altered("attention", |keys| {
        keys.insert("target_modules".to_owned(), json!(["q_proj", "v_proj", "o_proj"]));
    });
    assert!(refused(more.path()).contains("self_attn.o_proj.lora_A.weight"));
    let fewer = altered("attention", |keys| {
        keys.insert("target_modules".to_owned(), json!(["q_proj"]));
    });
    assert!(refused(fewer.path()).contains("v_proj.lora_A.weight"));
    let without = tempfile::tempdir().unwrap();
    assert!(refused(without.path()).contains("adapter_config.json"));
    // A model with other sizes.
    let family = fs::read_dir(fixture("families")).unwrap().map(|entry| entry.unwrap().path());
    let family = family.filter(|path| path.join("config.json").exists()).min().unwrap();
    let other = spag_model::load_config(&family).unwrap();
    assert!(Adapter::load(fixture("peft").join("attention"), &other.architecture).is_err());
}
