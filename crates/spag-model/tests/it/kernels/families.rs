//! Compares training and generation of tiny models of all families with PyTorch's numbers and with the CPU.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_model::checkpoint::load_model;
use spag_model::dtype::WeightDtype;
use spag_model::generate::{PrefixSharing, SumOrder};
use spag_model::model::Activations;
use spag_model::params::FlatBuffers;
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_tests::fixture;

use super::copied;
use crate::families::families;
use crate::family_samples::{Expected, batch};

/// Together these cover every option that distinguishes families.
const DIFFERENT: [&str; 13] = [
    "qwen2",
    "qwen3",
    "mistral",
    "baichuan2-13b",
    "smollm",
    "olmo2",
    "gemma3",
    "qwen3-yarn",
    "smollm3",
    "granite",
    "phi3",
    "phi3-longrope",
    "gemma3-mm",
];

/// The folders of the families; in the emulator only [`DIFFERENT`].
fn folders(place: &Place) -> Vec<PathBuf> {
    if place.is_emulated() { DIFFERENT.map(|name| fixture("families").join(name)).to_vec() } else { families() }
}

#[test]
fn f32_gradients_equal_those_of_pytorch() {
    gradients(WeightDtype::F32);
}

#[test]
fn bf16_gradients_are_near_those_of_pytorch() {
    gradients(WeightDtype::Bf16);
}

/// Compares the loss and the gradient of every parameter on a fixture's samples with PyTorch's. Tolerances: in f32 1e-4 for
/// the loss and for gradients, relative in the 2-norm; in bf16 0.05 and 0.1, the effect of rounding to 8 bits. Gradients that
/// are small relative to the others, such as those of key biases, are sums of larger terms that cancel; in bf16 their rounding
/// is compared with a hundredth of the whole gradient.
fn gradients(dtype: WeightDtype) {
    let place = Place::of_this_build();
    for folder in folders(&place) {
        gradients_of(&place, &folder, dtype);
    }
}

fn gradients_of(place: &Place, folder: &Path, dtype: WeightDtype) {
    let Expected { train, .. } = Expected::read(folder);
    let wanted: HashMap<String, Tensor> =
        candle_core::safetensors::load(folder.with_extension("grads.safetensors"), &Device::Cpu).unwrap();
    let model = load_model(folder).and_then(|model| model.to_dtype(dtype)).unwrap();
    let model = copied(&model, place);
    let (packed, targets, upstream) = batch(&train);
    let (log_probs, gradients) = place.run(|| {
        let gradients = FlatBuffers::zeros(model.parameters().layout(), place.device()).unwrap();
        let forward = model.forward(packed, targets, Activations::KeepLast(0)).unwrap();
        let log_probs = forward.read_log_probs().unwrap();
        model.backward_from(forward, &upstream, &gradients).unwrap();
        (log_probs, gradients)
    });
    let loss: f64 = log_probs.iter().zip(&upstream).map(|(log_prob, g)| f64::from(log_prob * g)).sum();
    let norm = |x: &Tensor| {
        let sum = x.to_dtype(DType::F64).and_then(|x| x.sqr()?.sum_all()?.to_scalar::<f64>());
        sum.unwrap().sqrt()
    };
    let whole = wanted.values().map(|x| norm(x).powi(2)).sum::<f64>().sqrt();
    let (loss_limit, gradient_limit, least) =
        if dtype == WeightDtype::F32 { (1e-4, 1e-4, 0.0) } else { (0.05, 0.1, whole / 100.0) };
    let mut worst = 0f64;
    for (name, found) in gradients.named().unwrap() {
        let found = found.to_device(&Device::Cpu).unwrap();
        let distance = norm(&(found - &wanted[&name]).unwrap()) / norm(&wanted[&name]).max(least);
        assert!(distance <= gradient_limit, "{}: {name}: {distance:.1e}", folder.display());
        worst = worst.max(distance);
    }
    let distance = (loss - train.loss).abs();
    println!("{}: loss within {distance:.1e}, gradients within {worst:.1e}", folder.display());
    assert!(distance <= loss_limit, "{}: {distance:.1e}", folder.display());
}

/// In f32 with chunked prefill and decoding, for a short and a long prompt.
#[test]
fn greedy_tokens_equal_those_of_the_cpu() {
    let place = Place::of_this_build();
    for folder in folders(&place) {
        greedy_tokens_of(&place, &folder);
    }
}

fn greedy_tokens_of(place: &Place, folder: &Path) {
    let tokens = if place.is_emulated() { 4 } else { 16 };
    let prompts = Expected::read(folder).prompts;
    let longest = prompts.iter().max_by_key(|prompt| prompt.text.len()).unwrap();
    let config = Arc::new(GenerationConfig { max_new_tokens: tokens, ..GenerationConfig::default() });
    let requests: Vec<Request> = [&prompts[0], longest]
        .map(|prompt| Request { prompt: prompt.text.clone().into(), seed: 1, config: config.clone() })
        .to_vec();
    let setting = EngineConfig {
        max_length: 320,
        page_size: 16,
        pages: 48,
        max_running: 2,
        max_step_tokens: 100,
        prefix_sharing: PrefixSharing::On,
        sum_order: SumOrder::Any,
    };
    let checkpoint = Checkpoint::load(folder).unwrap();
    let run = |model: Model| -> Vec<Vec<u32>> {
        let checkpoint = Checkpoint { model, tokenizer: checkpoint.tokenizer.clone() };
        let mut engine = Engine::new(&checkpoint, setting).unwrap();
        let completions = engine.generate(requests.clone()).unwrap();
        completions.into_iter().map(|completion| completion.token_ids).collect()
    };
    let want = run(checkpoint.model.clone());
    let there = copied(&checkpoint.model, place);
    assert_eq!(place.run(|| run(there)), want, "{}", folder.display());
}
