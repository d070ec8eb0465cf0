//! bf16 training passes on a CPU: no further from f32 than PyTorch's, on every path, for any number of threads.
//!
//! The script beside the fixture measures PyTorch's distances.

use std::collections::BTreeMap;

use crate::family_samples::{Expected, Prompt, Train, batch};
use candle_core::Device;
use serde::Deserialize;
use spag_model::Model;
use spag_model::batch::PackedBatch;
use spag_model::checkpoint::{LoadOptions, load_model_with};
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_model::params::FlatBuffers;
use spag_ops::CpuPath;
use spag_tests::{fixture, test_process};

#[derive(Deserialize)]
struct Distances {
    families: BTreeMap<String, Distance>,
}

/// |bf16 − f32| / |f32|.
#[derive(Deserialize)]
struct Distance {
    logits: f64,
    gradients: f64,
}

fn load(family: &str, dtype: WeightDtype) -> Model {
    load_model_with(fixture("families").join(family), &LoadOptions { device: Device::Cpu, dtype }).unwrap()
}

/// The logits after each prompt.
fn logits(model: &Model, prompts: &[Prompt]) -> Vec<f32> {
    let last = |ids: &[u32]| model.logits(&PackedBatch::new([ids]), &[ids.len() as u32 - 1]).unwrap();
    prompts.iter().flat_map(|prompt| last(&prompt.input_ids).flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
}

/// The gradients of all parameters by the mean of the samples' mean log-probabilities, negated.
fn gradients(model: &Model, train: &Train, keep: Activations) -> Vec<f32> {
    let (packed, targets, upstream) = batch(train);
    let forward = model.forward(packed, targets, keep).unwrap();
    let gradients = FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu).unwrap();
    model.backward_from(forward, &upstream, &gradients).unwrap();
    gradients.layers().iter().flat_map(|layer| layer.to_vec1::<f32>().unwrap()).collect()
}

/// Tolerated ratio to PyTorch's distance: both are of a single random model.
const NEAR: f64 = 1.1;

fn distance(found: &[f32], wanted: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let difference = norm(&mut found.iter().zip(wanted).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    difference / norm(&mut wanted.iter().map(|x| f64::from(*x)))
}

/// Runs [`on_this_path`] in a process for each path: the path is fixed per process.
#[test]
fn every_path_is_as_close_to_f32_as_pytorch() {
    for path in CpuPath::ALL.into_iter().filter(|path| path.is_available()) {
        let mut test = test_process("bf16::on_this_path");
        test.env("SPAG_CPU", path.name());
        let output = test.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{path}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("{path}: tested");
    }
}

/// Tests the path selected by `SPAG_CPU`, in a child process.
#[test]
fn on_this_path() {
    if std::env::var_os("SPAG_CPU").is_none() {
        return;
    }
    let file = std::fs::read(fixture("bf16/distances.json")).unwrap();
    let distances: Distances = serde_json::from_slice(&file).unwrap();
    assert_eq!(distances.families.len(), 8);
    for (family, of_pytorch) in &distances.families {
        let expected = Expected::read(&fixture("families").join(family));
        let (wide, narrow) = (load(family, WeightDtype::F32), load(family, WeightDtype::Bf16));
        let found = distance(&logits(&narrow, &expected.prompts), &logits(&wide, &expected.prompts));
        eprintln!("{family}: logits {found:.5}, PyTorch {}", of_pytorch.logits);
        assert!(
            0.0 < found && found <= NEAR * of_pytorch.logits,
            "{family}: logits {found}, PyTorch {}",
            of_pytorch.logits
        );
        let in_bf16 = gradients(&narrow, &expected.train, Activations::Keep);
        let found = distance(&in_bf16, &gradients(&wide, &expected.train, Activations::Keep));
        eprintln!("{family}: gradients {found:.5}, PyTorch {}", of_pytorch.gradients);
        let limit = NEAR * of_pytorch.gradients;
        assert!(0.0 < found && found <= limit, "{family}: gradients {found}, at most {limit}");
        // Recomputation and the number of threads do not change any bit.
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let again = pool.install(|| gradients(&narrow, &expected.train, Activations::KeepLast(0)));
            assert!(again.iter().zip(&in_bf16).all(|(a, b)| a.to_bits() == b.to_bits()), "{family}, {threads} threads");
        }
    }
}
