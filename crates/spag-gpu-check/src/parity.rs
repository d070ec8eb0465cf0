//! Compares kernels with fixtures of the reference implementation: training curves and greedy tokens.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use spag_io::Silent;
use spag_model::{
    Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, LoadOptions, MemoryBudget, Request, WeightDtype,
    load_model_with,
};
use spag_rewards::read_samples;
use spag_train::{DataOrder, Observer, Record, TrainConfig, TrainMethod, train_samples};

use crate::Place;
use crate::kernels::guarded;
use crate::report::Row;

/// Runs every comparison and passes its row to `sink`.
pub fn run(place: &Place, fixtures: &Path, sink: &mut dyn FnMut(Row)) {
    let mut one = |what: String, check: &dyn Fn() -> String| {
        let mut summary = String::new();
        let outcome = guarded(|| summary = check());
        let result = outcome.as_ref().map_or_else(String::clone, |()| summary);
        sink(Row { part: "parity".into(), what, numbers: json!(result), result, passed: Some(outcome.is_ok()) });
    };
    one("the engine's tokens are the CPU's: chunks, shared pages, sampling".into(), &|| {
        crate::engine::check(place, fixtures);
        "all tokens equal".into()
    });
    one("new weights in a running engine: tokens and log-probabilities are those of a new engine".into(), &|| {
        crate::engine::refresh(place, fixtures);
        "all bits equal, f32 and bf16".into()
    });
    for family in families(fixtures) {
        let name = family.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
            one(format!("{name}: loss and all gradients, {dtype}"), &|| {
                crate::families::training(place, &family, dtype)
            });
        }
        one(format!("{name}: the engine's tokens are the CPU's"), &|| {
            crate::families::generation(place, &family, 16);
            "all tokens equal".into()
        });
    }
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        for (name, method) in METHODS {
            one(format!("12 training steps, {name}, {dtype}"), &|| {
                training(place, fixtures, (name, method), dtype, STEPS)
            });
        }
        one(format!("30 prompts, 48 greedy tokens each, {dtype}"), &|| generation(place, fixtures, dtype, 30, 48));
    }
}

/// The folders of tiny models of all families, in order.
fn families(fixtures: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(fixtures.join("families")).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Methods of the training fixtures.
pub const METHODS: [(&str, TrainMethod); 2] =
    [("SFTwithKL", TrainMethod::SftWithKl), ("OfflinePO", TrainMethod::OfflinePo)];

#[derive(Deserialize)]
struct Training {
    /// Settings by flag name, and three without a flag.
    hyperparameters: serde_json::Map<String, serde_json::Value>,
    curve: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    loss: f64,
    grad_norm: f64,
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Number of steps of the fixtures.
const STEPS: usize = 12;

/// Records the first steps of a run, then stops it.
struct First {
    records: Vec<Record>,
    steps: usize,
}

impl Observer for First {
    fn record(&mut self, record: &Record) -> spag_train::Result<()> {
        self.records.push(record.clone());
        if self.records.len() < self.steps {
            return Ok(());
        }
        // An error is the only way to stop a run early.
        Err(spag_train::Error::Setting { name: "max_steps", reason: "enough for a comparison".into() })
    }
}

/// Compares losses and gradient norms of the first `steps` steps with the reference implementation (f32, losses with
/// four decimals). Tolerances: in f32 1e-4 for losses and 1e-4 relative for norms; in bf16 0.1 and 4e-2, the effect of
/// rounding activations and weights to 8 bits.
///
/// # Panics
/// If a tolerance is exceeded or the run fails.
pub fn training(
    place: &Place,
    fixtures: &Path,
    (name, method): (&str, TrainMethod),
    dtype: WeightDtype,
    steps: usize,
) -> String {
    let expected: Training = read(&fixtures.join(format!("training/{name}.json")));
    let mut settings = expected.hyperparameters.clone();
    settings.retain(|key, _| !["epochs", "order", "dtype"].contains(&key.as_str()));
    let config = TrainConfig {
        method,
        num_train_epochs: 1.0,
        data_order: DataOrder::Sequential,
        bf16: dtype == WeightDtype::Bf16,
        ..serde_json::from_value(settings.into()).expect("settings of spag-train")
    };
    let samples = read_samples(fixtures.join("training/train_items.json")).expect("the fixture's samples");
    let options = LoadOptions { device: place.candle_device().clone(), dtype };
    let checkpoint = Checkpoint::load_with(fixtures.join("tiny-llama"), &options).expect("the fixture's model");
    let reference = load_model_with(fixtures.join("tiny-llama/ref"), &options).expect("the fixture's reference");
    let mut first = First { records: Vec::new(), steps };
    let ended = place.run(|| {
        let Checkpoint { model, tokenizer } = &checkpoint;
        train_samples(model, tokenizer, &samples, Some(&reference), &config, &mut first, &mut Silent)
    });
    let records = first.records;
    assert_eq!(records.len(), steps, "{ended:?}");
    let (mut worst_loss, mut worst_norm) = (0f64, 0f64);
    for (got, want) in records.iter().zip(&expected.curve) {
        worst_loss = worst_loss.max((got.loss - want.loss).abs());
        worst_norm = worst_norm.max((got.grad_norm / want.grad_norm - 1.0).abs());
    }
    let (loss, norm) = if dtype == WeightDtype::F32 { (1e-4, 1e-4) } else { (0.1, 4e-2) };
    let summary = format!("losses within {worst_loss:.1e}, gradient norms within {worst_norm:.1e} of themselves");
    assert!(worst_loss <= loss && worst_norm <= norm, "{summary}");
    summary
}

#[derive(Deserialize)]
struct Generation {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt: String,
    output_ids: Vec<u32>,
}

/// Compares the first greedy tokens of the first `count` prompts with the fixture. In f32 all must be equal. In bf16
/// close tokens may be swapped, which changes all later tokens, so half of the tokens before the first difference
/// suffice.
///
/// # Panics
/// If fewer are equal or the engine fails.
pub fn generation(place: &Place, fixtures: &Path, dtype: WeightDtype, count: usize, tokens: usize) -> String {
    let Generation { cases } = read(&fixtures.join("generate.json"));
    let options = LoadOptions { device: place.candle_device().clone(), dtype };
    let checkpoint = Checkpoint::load_with(fixtures.join("tiny-llama"), &options).expect("the fixture's model");
    let config = Arc::new(GenerationConfig { max_new_tokens: tokens, ..GenerationConfig::default() });
    let requests = cases.iter().take(count).map(|case| Request {
        prompt: case.prompt.clone().into(),
        seed: 0,
        config: config.clone(),
    });
    let completions = place
        .run(|| {
            let setting = EngineConfig::new(checkpoint.model.config(), 8, MemoryBudget::for_model(&checkpoint.model)?);
            Engine::new(&checkpoint, setting)?.generate(requests.collect())
        })
        .expect("the engine");
    let same = |got: &[u32], want: &[u32]| got.iter().zip(want).take_while(|(a, b)| a == b).count();
    let (mut equal, mut all, mut whole) = (0, 0, 0);
    for (completion, case) in completions.iter().zip(&cases) {
        let want = &case.output_ids[..case.output_ids.len().min(tokens)];
        equal += same(&completion.token_ids, want);
        all += want.len();
        whole += usize::from(completion.token_ids == want);
    }
    let summary =
        format!("{whole} of {} completions equal, {equal} of {all} tokens before a difference", completions.len());
    let enough = if dtype == WeightDtype::F32 { equal == all } else { 2 * equal >= all };
    assert!(enough, "{summary}");
    summary
}
