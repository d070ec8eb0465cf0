//! Compares training and generation of tiny models of all families with PyTorch's numbers and with the CPU.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use spag_model::{
    Activations, Checkpoint, Engine, EngineConfig, FlatBuffers, Generate, GenerationConfig, Model, PackedBatch,
    PrefixSharing, Request, Targets, WeightDtype, load_model,
};

use crate::Place;
use crate::engine::copied;

#[derive(Deserialize)]
struct Expected {
    prompts: Vec<Prompt>,
    train: Train,
}

#[derive(Deserialize)]
struct Prompt {
    text: String,
}

#[derive(Deserialize)]
struct Train {
    samples: Vec<Sample>,
    loss: f64,
}

#[derive(Deserialize)]
struct Sample {
    prompt_ids: Vec<u32>,
    target_ids: Vec<u32>,
}

fn expected(folder: &Path) -> Expected {
    let file = folder.with_extension("json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The samples in one batch, and the gradient of the loss for each target.
fn batch(train: &Train) -> (PackedBatch, Targets, Vec<f32>) {
    let (mut sequences, mut targets) = (Vec::new(), Targets { rows: Vec::new(), tokens: Vec::new() });
    let (mut upstream, mut first) = (Vec::new(), 0);
    for sample in &train.samples {
        let (prompt, target) = (sample.prompt_ids.len() as u32, sample.target_ids.len() as u32);
        targets.rows.extend(first + prompt - 1..first + prompt + target - 1);
        targets.tokens.extend(&sample.target_ids);
        upstream.resize(upstream.len() + target as usize, -1.0 / (train.samples.len() as f32 * target as f32));
        sequences.push([sample.prompt_ids.as_slice(), &sample.target_ids].concat());
        first += prompt + target;
    }
    (PackedBatch::new(sequences.iter().map(Vec::as_slice)), targets, upstream)
}

/// The loss and the gradient of every parameter of a fixture's samples against PyTorch's. Tolerances: in f32 1e-4 for the loss
/// and for gradients, relative in the 2-norm; in bf16 0.05 and 0.1, the effect of rounding to 8 bits. Gradients that are small
/// beside the others, as that of a bias of keys, are sums in which larger terms cancel; in bf16 their rounding is compared
/// with a hundredth of the whole gradient.
///
/// # Panics
/// If a tolerance is exceeded.
pub fn training(place: &Place, folder: &Path, dtype: WeightDtype) -> String {
    let Expected { train, .. } = expected(folder);
    let wanted: HashMap<String, Tensor> =
        candle_core::safetensors::load(folder.with_extension("grads.safetensors"), &Device::Cpu).expect("gradients");
    let model = load_model(folder).and_then(|model| model.to_dtype(dtype)).expect("the fixture's model");
    let model = copied(&model, place);
    let (packed, targets, upstream) = batch(&train);
    let (log_probs, gradients) = place.run(|| {
        let gradients = FlatBuffers::zeros(model.parameters().layout(), place.candle_device()).expect("memory");
        let forward = model.forward(packed, targets, Activations::Recompute).expect("a forward pass");
        let log_probs = forward.read_log_probs().expect("log-probabilities");
        model.backward_from(forward, &upstream, &gradients).expect("a backward pass");
        (log_probs, gradients)
    });
    let loss: f64 = log_probs.iter().zip(&upstream).map(|(log_prob, g)| f64::from(log_prob * g)).sum();
    let norm = |x: &Tensor| {
        let sum = x.to_dtype(DType::F64).and_then(|x| x.sqr()?.sum_all()?.to_scalar::<f64>());
        sum.expect("a sum").sqrt()
    };
    let whole = wanted.values().map(|x| norm(x).powi(2)).sum::<f64>().sqrt();
    let (loss_limit, gradient_limit, least) =
        if dtype == WeightDtype::F32 { (1e-4, 1e-4, 0.0) } else { (0.05, 0.1, whole / 100.0) };
    let mut worst = 0f64;
    for (name, found) in gradients.named().expect("named gradients") {
        let found = found.to_device(&Device::Cpu).expect("a gradient");
        let distance = norm(&(found - &wanted[&name]).expect("equal shapes")) / norm(&wanted[&name]).max(least);
        assert!(distance <= gradient_limit, "{}: {name}: {distance:.1e}", folder.display());
        worst = worst.max(distance);
    }
    let summary = format!("loss within {:.1e}, gradients within {worst:.1e}", (loss - train.loss).abs());
    assert!((loss - train.loss).abs() <= loss_limit, "{}: {summary}", folder.display());
    summary
}

/// Greedy tokens in f32 with chunked prefill and decoding, against the CPU's, for a short and a long prompt.
///
/// # Panics
/// If tokens differ.
pub fn generation(place: &Place, folder: &Path, tokens: usize) {
    let prompts = expected(folder).prompts;
    let longest = prompts.iter().max_by_key(|prompt| prompt.text.len()).expect("prompts");
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
    };
    let checkpoint = Checkpoint::load(folder).expect("the fixture's model");
    let run = |model: Model| -> Vec<Vec<u32>> {
        let checkpoint = Checkpoint { model, tokenizer: checkpoint.tokenizer.clone() };
        let mut engine = Engine::new(&checkpoint, setting).expect("an engine");
        let completions = engine.generate(requests.clone()).expect("completions");
        completions.into_iter().map(|completion| completion.token_ids).collect()
    };
    let want = run(checkpoint.model.clone());
    let there = copied(&checkpoint.model, place);
    assert_eq!(place.run(|| run(there)), want, "{}", folder.display());
}
