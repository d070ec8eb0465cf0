//! The training fixtures: settings, samples, models and the expected values of two methods.

use std::collections::BTreeMap;

use candle_core::Device;
use serde::Deserialize;
use spag_model::checkpoint::{LoadOptions, load_model_with};
use spag_model::dtype::WeightDtype;
use spag_model::{Checkpoint, Model};
use spag_rewards::{Sample, read_samples};
use spag_tests::{fixture, json};
use spag_train::{DataOrder, TrainConfig, TrainMethod};

#[derive(Deserialize)]
pub(crate) struct Expected {
    /// Settings by their flags' names, and three that have none.
    pub(crate) hyperparameters: serde_json::Map<String, serde_json::Value>,
    pub(crate) first_batches: Vec<ExpectedBatch>,
    pub(crate) loss: Option<f64>,
    pub(crate) curve: Vec<Point>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedBatch {
    pub(crate) input_ids: Vec<Vec<u32>>,
    pub(crate) labels: Vec<Vec<i64>>,
    pub(crate) attention_mask: Vec<Vec<f64>>,
    pub(crate) weights: Vec<f64>,
    pub(crate) rewards: Vec<f64>,
    pub(crate) sft_mask: Vec<f64>,
    pub(crate) logprob: Vec<f64>,
    pub(crate) ref_logprob: Vec<f64>,
    pub(crate) loss: f64,
    #[serde(default)]
    pub(crate) grad_norms: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
pub(crate) struct Point {
    pub(crate) step: usize,
    pub(crate) loss: f64,
    pub(crate) learning_rate: f64,
    pub(crate) grad_norm: f64,
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
    pub(crate) config: TrainConfig,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) reference: Model,
    pub(crate) samples: Vec<Sample>,
}

fn case(name: &'static str, method: TrainMethod, options: &LoadOptions) -> Case {
    let expected: Expected = serde_json::from_value(json(fixture(format!("training/{name}.json")))).unwrap();
    let mut settings = expected.hyperparameters.clone();
    settings.retain(|key, _| !["epochs", "order", "dtype"].contains(&key.as_str()));
    let config = TrainConfig {
        method,
        num_train_epochs: 1.0,
        data_order: DataOrder::Sequential,
        bf16: options.dtype == WeightDtype::Bf16,
        ..serde_json::from_value(settings.into()).unwrap()
    };
    let checkpoint = Checkpoint::load_with(fixture("tiny-llama"), options).unwrap();
    let reference = load_model_with(fixture("tiny-llama/ref"), options).unwrap();
    let samples = read_samples(fixture("training/train_items.json")).unwrap();
    Case { name, expected, config, checkpoint, reference, samples }
}

/// Both, with models of this number format on the CPU.
pub(crate) fn cases(dtype: WeightDtype) -> [Case; 2] {
    cases_on(&Device::Cpu, dtype)
}

/// Both, with models of this number format on a device.
pub(crate) fn cases_on(device: &Device, dtype: WeightDtype) -> [Case; 2] {
    let options = LoadOptions { device: device.clone(), dtype };
    [case("SFTwithKL", TrainMethod::SftWithKl, &options), case("OfflinePO", TrainMethod::OfflinePo, &options)]
}
