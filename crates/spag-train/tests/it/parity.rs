//! Training against the reference implementation: batches, log-probabilities, losses, gradients, curves and weights,
//! all computed in f32 on a CPU with PyTorch.
//!
//! `cargo test --release -p spag-train --test it parity` reproduces it.

use crate::training_fixture::{Case, cases};
use candle_core::{Device, Tensor};
use spag_chat::PromptEncoder;
use spag_io::Silent;
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_model::params::FlatBuffers;
use spag_tests::fixture;
use spag_train::loss::{self, LossInput};
use spag_train::optimizer::global_norm;
use spag_train::{Dataset, Packing, Record, TrainConfig, Trajectory, encode, reference_log_probs, train_samples};

fn close(got: f64, want: f64, relative: f64, what: &str) {
    assert!((got - want).abs() <= relative * want.abs().max(1e-3), "{what}: {got} against the reference's {want}");
}

fn encoded(case: &Case) -> Vec<Trajectory> {
    encode(&case.samples, 0, &PromptEncoder::new(case.checkpoint.tokenizer.clone()), case.config.max_length).unwrap()
}

/// The samples with ℓ_ref.
fn dataset(case: &Case) -> Dataset {
    let dataset =
        Dataset::new(&case.samples, &PromptEncoder::new(case.checkpoint.tokenizer.clone()), case.config.max_length)
            .unwrap();
    let refs = reference_log_probs(&case.reference, dataset.samples(), &mut Silent).unwrap();
    dataset.with_reference(refs).unwrap()
}

/// Loss of the first micro-batch and its gradients.
fn first_gradient(case: &Case, keep: Activations, packing: Packing) -> (f64, FlatBuffers) {
    let dataset = dataset(case);
    let loss = loss::build(&case.config);
    let batch =
        dataset.batch(&(0..case.config.per_device_train_batch_size).collect::<Vec<_>>(), packing).with_divisors(&*loss);
    let model = &case.checkpoint.model;
    let forward = model.forward(batch.packed.clone(), batch.targets.clone(), keep).unwrap();
    let input = LossInput::new(&batch, forward.log_probs()).unwrap();
    let loss = loss.evaluate(&input).unwrap().loss;
    let upstream = input.gradient(&batch, &loss, 1.0).unwrap();
    let gradients = FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu).unwrap();
    model.backward(forward, &upstream, &gradients).unwrap();
    (loss.to_scalar().unwrap(), gradients)
}

fn max_abs(t: &Tensor) -> f64 {
    f64::from(t.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar::<f32>().unwrap())
}

#[test]
fn ids_labels_and_masks_match_the_reference() {
    for case in cases(WeightDtype::F32) {
        let all = encoded(&case);
        let mut rows = all.iter();
        for batch in &case.expected.first_batches {
            for i in 0..batch.input_ids.len() {
                let sample = rows.next().unwrap();
                let length = batch.attention_mask[i].iter().filter(|m| **m == 1.0).count();
                assert!(batch.attention_mask[i][..length].iter().all(|m| *m == 1.0), "padding is on the right");
                assert_eq!(sample.ids, batch.input_ids[i][..length], "{} row {}", case.name, sample.row);
                let mut labels = vec![-100; length];
                sample.spans[0].tokens.clone().for_each(|at| labels[at] = i64::from(sample.ids[at]));
                assert_eq!(labels, batch.labels[i][..length], "{} row {}", case.name, sample.row);
                assert!(batch.labels[i][length..].iter().all(|l| *l == -100));
                assert_eq!(sample.spans[0].weight as f32, batch.weights[i] as f32);
                assert_eq!(sample.spans[0].reward as f32, batch.rewards[i] as f32);
                assert_eq!(sample.spans[0].kind == spag_rewards::SampleKind::Sft, batch.sft_mask[i] == 1.0);
            }
        }
    }
}

#[test]
fn log_probs_and_losses_match_the_reference() {
    for case in cases(WeightDtype::F32) {
        let dataset = dataset(&case);
        let loss = loss::build(&case.config);
        let size = case.config.per_device_train_batch_size;
        for (index, want) in case.expected.first_batches.iter().enumerate() {
            let batch = dataset
                .batch(&(index * size..(index + 1) * size).collect::<Vec<_>>(), Packing::None)
                .with_divisors(&*loss);
            let log_probs = case.checkpoint.model.log_probs(&batch.packed, &batch.targets).unwrap();
            let input = LossInput::new(&batch, &Tensor::new(log_probs, &Device::Cpu).unwrap()).unwrap();
            let means = input.log_probs().to_vec1::<f64>().unwrap();
            let refs = input.ref_log_probs().unwrap().to_vec1::<f64>().unwrap();
            for i in 0..batch.samples.len() {
                close(means[i], want.logprob[i], 1e-5, &format!("{} batch {index} ℓ", case.name));
                close(refs[i], want.ref_logprob[i], 1e-5, &format!("{} batch {index} ℓ_ref", case.name));
            }
            let loss = loss.evaluate(&input).unwrap().loss;
            close(loss.to_scalar().unwrap(), want.loss, 1e-5, &format!("{} batch {index} loss", case.name));
        }
    }
}

#[test]
fn first_gradient_matches_the_reference() {
    for case in cases(WeightDtype::F32) {
        for (keep, packing) in [
            (Activations::Keep, Packing::None),
            (Activations::KeepLast(0), Packing::None),
            (Activations::Keep, Packing::Tree),
            (Activations::KeepLast(0), Packing::Tree),
        ] {
            let (loss, gradients) = first_gradient(&case, keep, packing);
            close(loss, case.expected.loss.unwrap_or(case.expected.first_batches[0].loss), 1e-5, "loss");
            let file = fixture(format!("training/{}_grad0.safetensors", case.name));
            let want = candle_core::safetensors::load(file, &Device::Cpu).unwrap();
            let norms = &case.expected.first_batches[0].grad_norms;
            let named = gradients.named().unwrap();
            assert_eq!(named.len(), want.len());
            for (name, got) in named {
                let want = &want[&name];
                let worst = max_abs(&(&got - want).unwrap()) / max_abs(want);
                assert!(worst <= 1e-5, "{} {name}: {worst:e} of the largest element", case.name);
                let norm = got.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap().sqrt();
                close(f64::from(norm), norms[&name], 1e-5, &name);
            }
            assert!(global_norm(&gradients).unwrap() > 0.0);
        }
    }
}

/// Twelve steps: the curve, and the final weights.
fn follow(case: &Case, config: &TrainConfig) {
    let model = case.checkpoint.model.deep_copy().unwrap();
    let mut records: Vec<Record> = Vec::new();
    let tokenizer = &case.checkpoint.tokenizer;
    train_samples(&model, tokenizer, &case.samples, Some(&case.reference), config, &mut records, &mut Silent).unwrap();
    assert_eq!(records.len(), case.expected.curve.len());
    for (got, want) in records.iter().zip(&case.expected.curve) {
        assert_eq!(got.step, want.step);
        // The reference logs losses with four decimals.
        assert!((got.loss - want.loss).abs() < 1e-4, "{} step {}: {} {}", case.name, got.step, got.loss, want.loss);
        assert!((got.learning_rate - want.learning_rate).abs() < 1e-15, "step {}", got.step);
        close(got.grad_norm, want.grad_norm, 1e-4, &format!("{} step {} gradient norm", case.name, got.step));
    }
    let file = fixture(format!("training/{}_final.safetensors", case.name));
    let want = candle_core::safetensors::load(file, &Device::Cpu).unwrap();
    let mut beyond = Vec::new();
    for (name, got) in model.parameters().named().unwrap() {
        let columns = got.dims().last().copied().unwrap_or(1);
        let apart = (&got - &want[&name]).unwrap().abs().unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let far = apart.into_iter().enumerate().filter(|(_, apart)| *apart > 1e-5);
        beyond.extend(far.map(|(at, apart)| (name.clone(), at / columns, at % columns, apart)));
    }
    beyond.retain(|(name, row, column, apart)| {
        !ILL_CONDITIONED.contains(&(case.name, name.as_str(), *row, *column)) || *apart > 1e-4
    });
    assert!(beyond.is_empty(), "{}: {beyond:?}", case.name);
}

/// Elements whose gradient is rounding noise, which AdamW scales to whole steps. PyTorch's results in f64 and f32 differ
/// by 2.9e-5 there, and those with one thread and with two by 1.8e-5.
const ILL_CONDITIONED: [(&str, &str, usize, usize); 1] = [("SFTwithKL", "model.embed_tokens.weight", 862, 4)];

#[test]
fn twelve_steps_match_the_reference_curve_and_weights() {
    for case in cases(WeightDtype::F32) {
        follow(&case, &case.config);
    }
}

#[test]
fn twelve_steps_with_recomputation_match_the_reference() {
    for case in cases(WeightDtype::F32) {
        follow(&case, &TrainConfig { gradient_checkpointing: true, ..case.config.clone() });
    }
}

#[test]
fn twelve_steps_with_trees_match_the_reference() {
    for case in cases(WeightDtype::F32) {
        follow(&case, &TrainConfig { packing: Some(Packing::Tree), ..case.config.clone() });
    }
}
