//! ℓ_ref beside the run: computed once however often the run is stopped and goes on, even if stopped half-way.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spag_game::JsonlAppender;
use spag_model::{Llama, WeightDtype, weights_digest};

use super::compute;
use crate::dataset::{Dataset, hex};
use crate::error::{Error, Result};
use crate::progress::Progress;

/// What ℓ_ref depends on, as one digest: the samples' tokens (so the data, the tokenizer and `max_length`) and the
/// reference model's configuration and weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceKey(String);

impl ReferenceKey {
    /// The key of a data set under the reference model in `folder`, its weights rounded to `dtype`.
    ///
    /// # Errors
    /// The folder's files cannot be read.
    pub fn new(dataset: &Dataset, max_length: usize, folder: &Path, dtype: WeightDtype) -> Result<Self> {
        let mut hash = Sha256::new();
        hash.update(dataset.token_digest());
        hash.update((max_length as u64).to_le_bytes());
        hash.update(weights_digest(folder)?);
        hash.update([dtype.bytes() as u8]);
        Ok(Self(hex(&hash.finalize())))
    }
}

/// A line of the file: what it is about, then the samples of one forward pass after another.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Head { key: String, samples: usize },
    Part { first: usize, log_probs: Vec<f64> },
}

/// ℓ_ref of every sample of `dataset`, from the file of `key` in `dir`; what it lacks is computed with the model that
/// `load` gives, and added to it pass by pass.
pub(crate) fn cached(
    dir: &Path,
    key: &ReferenceKey,
    dataset: &Dataset,
    load: impl FnOnce() -> Result<Llama>,
    progress: &mut dyn Progress,
) -> Result<Vec<f64>> {
    let path = dir.join(format!("{:.16}.jsonl", key.0));
    let (mut file, lines) = JsonlAppender::<Line>::resume(&path)?;
    let mut known = Vec::with_capacity(dataset.samples.len());
    let wrong = || Error::ForeignFile { path: path.clone(), what: "reference log-probabilities of this run" };
    match lines.first() {
        None => file.append(&Line::Head { key: key.0.clone(), samples: dataset.samples.len() })?,
        Some(Line::Head { key: of, samples }) if *of == key.0 && *samples == dataset.samples.len() => {}
        Some(_) => return Err(wrong()),
    }
    for line in lines.into_iter().skip(1) {
        match line {
            Line::Part { first, log_probs } if first == known.len() => known.extend(log_probs),
            _ => return Err(wrong()),
        }
    }
    if known.len() > dataset.samples.len() {
        return Err(wrong());
    }
    if known.len() < dataset.samples.len() {
        let (model, start) = (load()?, known.len());
        compute::from(&model, &dataset.samples, start, progress, |range, part| {
            known.extend_from_slice(part);
            Ok(file.append(&Line::Part { first: range.start, log_probs: part.to_vec() })?)
        })?;
        file.sync()?;
    }
    Ok(known)
}
