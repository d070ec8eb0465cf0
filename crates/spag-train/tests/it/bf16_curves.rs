//! Twelve steps in bf16 on a CPU: as far from those in f32 as PyTorch's, on every path.
//!
//! `tests/fixtures/bf16/measure_curves.py` measures the distances of PyTorch.

use std::collections::BTreeMap;

use crate::training_fixture::{Case, cases};
use serde::Deserialize;
use spag_io::Silent;
use spag_model::dtype::WeightDtype;
use spag_model::params::FlatBuffers;
use spag_ops::CpuPath;
use spag_tests::{fixture, json, test_process};
use spag_train::{Record, train_samples};

#[derive(Deserialize)]
struct Distances {
    methods: BTreeMap<String, Distance>,
}

/// |bf16 − f32| / |f32| over the steps, and over the changes of all weights.
#[derive(Debug, Deserialize)]
struct Distance {
    losses: f64,
    gradient_norms: f64,
    weights: f64,
}

/// How far a distance may exceed that of PyTorch: both are of one run.
const NEAR: f64 = 1.5;

/// What a run has computed.
struct Run {
    losses: Vec<f64>,
    gradient_norms: Vec<f64>,
    changes: Vec<f64>,
}

fn elements(parameters: &FlatBuffers) -> Vec<f64> {
    let named = parameters.named().unwrap();
    let values = named.into_iter().flat_map(|(_, tensor)| {
        tensor.to_dtype(candle_core::DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap()
    });
    values.collect()
}

fn run(case: &Case) -> Run {
    let model = case.checkpoint.model.deep_copy().unwrap();
    let before = elements(model.parameters());
    let mut records: Vec<Record> = Vec::new();
    let (tokenizer, reference) = (&case.checkpoint.tokenizer, Some(&case.reference));
    train_samples(&model, tokenizer, &case.samples, reference, &case.config, &mut records, &mut Silent).unwrap();
    Run {
        losses: records.iter().map(|record| record.loss).collect(),
        gradient_norms: records.iter().map(|record| record.grad_norm).collect(),
        changes: elements(model.parameters()).iter().zip(before).map(|(after, before)| after - before).collect(),
    }
}

fn distance(found: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let difference: f64 = found.iter().zip(wanted).map(|(found, wanted)| (found - wanted).powi(2)).sum();
    (difference / wanted.iter().map(|wanted| wanted * wanted).sum::<f64>()).sqrt()
}

/// Starts [`on_this_path`] for each path: a process has one.
#[test]
fn every_path_stays_as_close_to_f32_as_pytorch() {
    for path in CpuPath::ALL.into_iter().filter(|path| path.is_available()) {
        let mut test = test_process("bf16_curves::on_this_path");
        test.env("SPAG_CPU", path.name());
        let output = test.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{path}: {text}\n{}", String::from_utf8_lossy(&output.stdout));
        eprintln!("{path}: tested\n{text}");
    }
}

/// The path that `SPAG_CPU` selects, in a process that was started for it.
#[test]
fn on_this_path() {
    if std::env::var_os("SPAG_CPU").is_none() {
        return;
    }
    let distances: Distances = serde_json::from_value(json(fixture("bf16/curves.json"))).unwrap();
    assert_eq!(distances.methods.len(), 2);
    for (wide, narrow) in cases(WeightDtype::F32).iter().zip(&cases(WeightDtype::Bf16)) {
        let of_pytorch = &distances.methods[wide.name];
        let (wanted, found) = (run(wide), run(narrow));
        assert_eq!(found.losses.len(), wide.expected.curve.len());
        let found = Distance {
            losses: distance(&found.losses, &wanted.losses),
            gradient_norms: distance(&found.gradient_norms, &wanted.gradient_norms),
            weights: distance(&found.changes, &wanted.changes),
        };
        eprintln!("{}: {found:?}, PyTorch {of_pytorch:?}", wide.name);
        let pairs = [
            (found.losses, of_pytorch.losses),
            (found.gradient_norms, of_pytorch.gradient_norms),
            (found.weights, of_pytorch.weights),
        ];
        for (found, of_pytorch) in pairs {
            assert!(found > 0.0 && found <= NEAR * of_pytorch, "{}: {found} for {of_pytorch}", wide.name);
        }
    }
}
