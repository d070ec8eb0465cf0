//! The model of these tests and the data it is trained on.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spag_tests::{fixture, json, program, root, run};

/// A model of one block with the tokenizer of `data/tiny-llama`, in `dir`.
pub(crate) fn small_model(dir: &Path) -> PathBuf {
    let mut config = json(root().join("data/tiny-llama/config.json"));
    for (key, value) in [
        ("hidden_size", 32),
        ("intermediate_size", 48),
        ("num_hidden_layers", 1),
        ("num_attention_heads", 2),
        ("num_key_value_heads", 2),
    ] {
        config[key] = json!(value);
    }
    let (file, model) = (dir.join("config.json"), dir.join("model"));
    fs::write(&file, config.to_string()).unwrap();
    let mut command = program("spag");
    command.arg("init-model").arg("--config").arg(&file).arg("--tokenizer").arg(root().join("data/tiny-llama"));
    run(command.arg("--output_dir").arg(&model), 0);
    model
}

/// 16 samples, in `dir`.
pub(crate) fn few_samples(dir: &Path) -> PathBuf {
    let samples = json(fixture("training/train_items.json"));
    let samples: Vec<&Value> = samples.as_array().unwrap().iter().take(16).collect();
    let file = dir.join("samples.json");
    fs::write(&file, serde_json::to_vec(&samples).unwrap()).unwrap();
    file
}
