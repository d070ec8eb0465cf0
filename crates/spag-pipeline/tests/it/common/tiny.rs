//! A small run: eight words, a model of 50,000 parameters, a few games.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use spag_io::Silent;
use spag_pipeline::{BaseConfig, BaseReport, RunConfig, make_base};
use tempfile::TempDir;

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).display().to_string()
}

/// The configuration of a base model that takes a few seconds to make.
pub(crate) fn base_config(folder: &Path, output_dir: &Path) -> BaseConfig {
    let text = format!(
        r#"
output_dir = {output:?}
lexicon = {lexicon:?}
prompts = {prompts:?}
[tokenizer]
pieces = 320
documents = 1500
[model]
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 2
max_position_embeddings = 256
[documents]
count = 3000
[train]
per_device_train_batch_size = 32
learning_rate = 5e-3
max_length = 256
[probes]
count = 20
"#,
        output = output_dir.display().to_string(),
        lexicon = fixture("lexicon.toml"),
        prompts = fixture("prompts.json"),
    );
    let file = folder.join("base.toml");
    fs::write(&file, text).unwrap();
    BaseConfig::load(&file, &[]).unwrap()
}

/// A base model, made once per test program.
pub(crate) fn base() -> &'static (TempDir, PathBuf, BaseReport) {
    static BASE: OnceLock<(TempDir, PathBuf, BaseReport)> = OnceLock::new();
    BASE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        let report = make_base(&base_config(folder.path(), &model), &mut Silent).unwrap();
        (folder, model, report)
    })
}

/// A run of one epoch in `run_dir` with `overrides`.
pub(crate) fn run_config(run_dir: &Path, overrides: &[&str]) -> RunConfig {
    let text = format!(
        r#"
run_dir = {run_dir:?}
base_model = {base:?}
lexicon = {lexicon:?}
prompts = {prompts:?}
epochs = 1
[imitation]
games = 120
[imitation.train]
per_device_train_batch_size = 16
num_train_epochs = 1.0
learning_rate = 2e-3
max_length = 256
[self_play]
games = 24
temperature = 1.0
max_new_tokens = 16
min_new_tokens = 1
games_in_flight = 5
[train]
per_device_train_batch_size = 8
num_train_epochs = 1.0
learning_rate = 1e-3
max_length = 256
[evaluation]
games = 10
self_play_games = 6
sample_games = 3
"#,
        run_dir = run_dir.display().to_string(),
        base = base().1.display().to_string(),
        lexicon = fixture("lexicon.toml"),
        prompts = fixture("prompts.json"),
    );
    // Tests of one program run at the same time.
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let file = base().0.path().join(format!("run-{}.toml", FILES.fetch_add(1, Ordering::Relaxed)));
    fs::write(&file, text).unwrap();
    RunConfig::load(&file, &overrides.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
}
