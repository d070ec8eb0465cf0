//! Tiny models of all families compared with PyTorch: logits, log-probabilities and the gradient of every parameter.
//!
//! The README of the fixtures documents how the values were computed. Folders of the same layout elsewhere are tested
//! too, if `SPAG_FAMILIES` names their parent folder.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::family_samples::{Expected, batch};
use candle_core::{DType, Device, Tensor};
use spag_model::batch::PackedBatch;
use spag_model::checkpoint::{LoadOptions, WriteOptions, load_model, load_model_with, save_model};
use spag_model::dtype::WeightDtype;
use spag_model::generate::MemoryBudget;
use spag_model::model::Activations;
use spag_model::params::{FlatBuffers, GradientSink, Layout};
use spag_model::tokenizer::BosRule;
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_ops::kernels::Accumulate;
use spag_tests::fixture;

/// The folders of all families.
pub(crate) fn families() -> Vec<PathBuf> {
    let parents = [Some(fixture("families")), std::env::var_os("SPAG_FAMILIES").map(PathBuf::from)];
    let mut folders: Vec<PathBuf> = parents
        .into_iter()
        .flatten()
        .flat_map(|parent| std::fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(folders.len() >= 12, "{folders:?}");
    folders
}

/// The logits of all positions, [N, V].
fn logits(model: &Model, ids: &[u32]) -> Vec<Vec<f32>> {
    let rows: Vec<u32> = (0..ids.len() as u32).collect();
    model.logits(&PackedBatch::new([ids]), &rows).unwrap().to_vec2().unwrap()
}

#[test]
fn logits_equal_those_of_pytorch() {
    for folder in families() {
        let (model, expected) = (load_model(&folder).unwrap(), Expected::read(&folder));
        for (at, prompt) in expected.prompts.iter().enumerate() {
            let found = logits(&model, &prompt.input_ids);
            let (last, want) = (found.last().unwrap(), &expected.logits_last[at]);
            assert_eq!(last.len(), want.len());
            let worst = last.iter().zip(want).map(|(found, want)| (found - want).abs()).fold(0f32, f32::max);
            assert!(worst < 1e-4, "{}, prompt {at}: {worst:e}", folder.display());
            for (position, (row, want)) in found.iter().zip(&expected.logits_sum_abs[at]).enumerate() {
                let sum: f64 = row.iter().map(|x| f64::from(x.abs())).sum();
                assert!((sum / want - 1.0).abs() < 1e-5, "{}, position {position}: {sum} {want}", folder.display());
            }
        }
    }
}

/// Gradients whose blocks hold numbers without a meaning before a pass writes them.
struct Unwritten(FlatBuffers);

impl Unwritten {
    fn new(gradients: &FlatBuffers) -> Self {
        let blocks = 1..gradients.layers().len() - 1;
        for layer in &gradients.layers()[blocks] {
            layer.slice_set(&Tensor::full(f32::NAN, layer.dims(), &Device::Cpu).unwrap(), 0, 0).unwrap();
        }
        Self(gradients.clone())
    }
}

impl GradientSink for Unwritten {
    fn layout(&self) -> &Layout {
        GradientSink::layout(&self.0)
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        self.0.buffer(layer)
    }

    fn block_buffer(&self, layer: usize) -> spag_model::Result<(Tensor, Accumulate)> {
        Ok((self.0.buffer(layer)?, Accumulate::No))
    }

    fn complete(&self, _layer: usize) -> spag_model::Result<()> {
        Ok(())
    }
}

#[test]
fn losses_and_gradients_equal_those_of_pytorch() {
    for folder in families() {
        let model = load_model(&folder).unwrap();
        let Expected { train, .. } = Expected::read(&folder);
        let (packed, targets, upstream) = batch(&train);
        let wanted: HashMap<String, Tensor> =
            candle_core::safetensors::load(folder.with_extension("grads.safetensors"), &Device::Cpu).unwrap();
        for keep in [Activations::Keep, Activations::KeepLast(0)] {
            let gradients = FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu).unwrap();
            let forward = model.forward(packed.clone(), targets.clone(), keep).unwrap();
            let mut log_probs = forward.read_log_probs().unwrap().into_iter();
            let mut loss = 0.0;
            for sample in &train.samples {
                let own: Vec<f64> = log_probs.by_ref().take(sample.target_ids.len()).map(f64::from).collect();
                let mean = own.iter().sum::<f64>() / own.len() as f64;
                assert!((mean - sample.mean_logprob).abs() < 1e-5, "{}: {mean}", folder.display());
                loss -= mean / train.samples.len() as f64;
            }
            assert!((loss - train.loss).abs() < 1e-5, "{}: {loss} for {}", folder.display(), train.loss);
            match keep {
                Activations::Keep => model.backward_from(forward, &upstream, &gradients).unwrap(),
                Activations::KeepLast(_) => {
                    let sink = Unwritten::new(&gradients);
                    let upstream = Tensor::new(upstream.as_slice(), &Device::Cpu).unwrap();
                    model.network().backward(model.parameters(), forward, &upstream, &sink).unwrap();
                }
            }
            let named: BTreeMap<String, Tensor> = gradients.named().unwrap().into_iter().collect();
            assert_eq!(named.len(), wanted.len(), "{}", folder.display());
            for (name, found) in named {
                let want = &wanted[&name];
                assert_eq!(found.dims(), want.dims(), "{}: {name}", folder.display());
                let norm = |x: &Tensor| {
                    x.to_dtype(DType::F64).unwrap().sqr().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap().sqrt()
                };
                let (distance, length) = (norm(&(&found - want).unwrap()), norm(want));
                assert!(distance <= 1e-4 * length, "{}: {name}: {:e}", folder.display(), distance / length);
            }
        }
    }
}

/// In one batch with chunked prefill and shared pages, and one by one.
#[test]
fn greedy_tokens_equal_those_of_pytorch() {
    for folder in families() {
        let (Checkpoint { model, tokenizer }, expected) = (Checkpoint::load(&folder).unwrap(), Expected::read(&folder));
        // As for the fixtures: with BOS, if the tokenizer has one.
        let checkpoint = Checkpoint { model, tokenizer: tokenizer.with_bos_rule(BosRule::IfKnown) };
        let config = Arc::new(GenerationConfig { max_new_tokens: 24, ..GenerationConfig::default() });
        let requests: Vec<Request> = (expected.prompts.iter())
            .map(|prompt| Request { prompt: prompt.text.clone().into(), seed: 1, config: config.clone() })
            .collect();
        let model = checkpoint.model.config();
        let plain = EngineConfig::new(model, requests.len(), MemoryBudget::host());
        let small = EngineConfig { page_size: 16, pages: 120, max_step_tokens: 37, max_running: 3, ..plain };
        for setting in [plain, small] {
            let mut engine = Engine::new(&checkpoint, setting).unwrap();
            for (at, completion) in engine.generate(requests.clone()).unwrap().into_iter().enumerate() {
                assert_eq!(completion.prompt_tokens, expected.prompts[at].input_ids.len(), "{}", folder.display());
                assert_eq!(completion.token_ids, expected.greedy[at].ids, "{}, prompt {at}", folder.display());
            }
        }
    }
}

/// A saved model has the same tensors under the same names and computes the same results.
#[test]
fn saved_models_compute_the_same() {
    for folder in families() {
        let (model, expected) = (load_model(&folder).unwrap(), Expected::read(&folder));
        let out = tempfile::tempdir().unwrap();
        save_model(&model, out.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
        let again = load_model(out.path()).unwrap();
        let names = |model: &Model| model.parameters().named().unwrap().into_iter().map(|(name, _)| name);
        assert!(names(&again).eq(names(&model)), "{}", folder.display());
        let ids = &expected.prompts[0].input_ids;
        assert_eq!(logits(&again, ids), logits(&model, ids), "{}", folder.display());
        // In bf16, in memory and on disk.
        let options = LoadOptions { dtype: WeightDtype::Bf16, ..LoadOptions::default() };
        let rounded = load_model_with(&folder, &options).unwrap();
        let out = tempfile::tempdir().unwrap();
        save_model(&rounded, out.path(), WriteOptions::new(WeightDtype::Bf16)).unwrap();
        let again = load_model_with(out.path(), &options).unwrap();
        assert_eq!(logits(&again, ids), logits(&rounded, ids), "{}", folder.display());
    }
}
