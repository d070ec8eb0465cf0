//! The expected values of a family's fixture, and its training samples as a batch.

use std::path::Path;

use serde::Deserialize;
use spag_model::batch::{PackedBatch, Targets};

/// The expected values of a family's model.
#[derive(Deserialize)]
pub(crate) struct Expected {
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) logits_last: Vec<Vec<f32>>,
    pub(crate) logits_sum_abs: Vec<Vec<f64>>,
    pub(crate) greedy: Vec<Greedy>,
    pub(crate) train: Train,
}

#[derive(Deserialize)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    pub(crate) input_ids: Vec<u32>,
}

#[derive(Deserialize)]
pub(crate) struct Greedy {
    pub(crate) ids: Vec<u32>,
}

#[derive(Deserialize)]
pub(crate) struct Train {
    pub(crate) samples: Vec<Sample>,
    pub(crate) loss: f64,
}

#[derive(Deserialize)]
pub(crate) struct Sample {
    pub(crate) prompt_ids: Vec<u32>,
    pub(crate) target_ids: Vec<u32>,
    pub(crate) mean_logprob: f64,
}

impl Expected {
    /// Reads those of the family in a folder.
    pub(crate) fn read(folder: &Path) -> Self {
        serde_json::from_slice(&std::fs::read(folder.with_extension("json")).unwrap()).unwrap()
    }
}

/// The samples of a family in one packed batch, and the weight of each target in the loss.
pub(crate) fn batch(train: &Train) -> (PackedBatch, Targets, Vec<f32>) {
    let (mut sequences, mut targets, mut upstream, mut first) =
        (Vec::new(), Targets { rows: vec![], tokens: vec![], ..Targets::default() }, Vec::new(), 0);
    for sample in &train.samples {
        let (prompt, target) = (sample.prompt_ids.len() as u32, sample.target_ids.len() as u32);
        targets.rows.extend(first + prompt - 1..first + prompt + target - 1);
        targets.tokens.extend(&sample.target_ids);
        upstream.extend(vec![-1.0 / (train.samples.len() as f32 * target as f32); target as usize]);
        sequences.push([sample.prompt_ids.as_slice(), &sample.target_ids].concat());
        first += prompt + target;
    }
    (PackedBatch::new(sequences.iter().map(Vec::as_slice)), targets, upstream)
}
