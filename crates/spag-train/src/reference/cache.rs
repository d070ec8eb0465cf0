//! ℓ_ref beside the run: computed once however often the run is stopped and goes on, even if stopped half-way.

use std::ops::Range;
use std::path::Path;

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spag_dist::{ProcessGroup, gather_numbers};
use spag_io::JsonlAppender;
use spag_model::{Llama, WeightDtype, weights_digest};

use super::compute;
use crate::dataset::{Dataset, hex};
use crate::error::{Error, Result};
use spag_io::Progress;

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

/// What is known of a data set's ℓ_ref, and the file that keeps it: on rank 0 alone.
struct Known {
    file: JsonlAppender<Line>,
    log_probs: Vec<f64>,
}

impl Known {
    fn read(path: &Path, key: &ReferenceKey, count: usize) -> Result<Self> {
        let (mut file, lines) = JsonlAppender::<Line>::resume(path)?;
        let mut log_probs = Vec::with_capacity(count);
        let wrong = || Error::ForeignFile { path: path.to_owned(), what: "reference log-probabilities of this run" };
        match lines.first() {
            None => file.append(&Line::Head { key: key.0.clone(), samples: count })?,
            Some(Line::Head { key: of, samples }) if *of == key.0 && *samples == count => {}
            Some(_) => return Err(wrong()),
        }
        for line in lines.into_iter().skip(1) {
            match line {
                Line::Part { first, log_probs: part } if first == log_probs.len() => log_probs.extend(part),
                _ => return Err(wrong()),
            }
        }
        match log_probs.len() > count {
            true => Err(wrong()),
            false => Ok(Self { file, log_probs }),
        }
    }

    fn add(&mut self, part: &[f64]) -> Result<()> {
        let first = self.log_probs.len();
        self.log_probs.extend_from_slice(part);
        Ok(self.file.append(&Line::Part { first, log_probs: part.to_vec() })?)
    }
}

/// ℓ_ref of every sample of `dataset`, from the file of `key` in `dir`, which rank 0 reads and writes; what it lacks is
/// computed with the model that `load` gives, a pass on every rank at a time, and added to it.
pub(crate) fn cached(
    group: &dyn ProcessGroup,
    dir: &Path,
    key: &ReferenceKey,
    dataset: &Dataset,
    load: impl FnOnce() -> Result<Llama>,
    progress: &mut dyn Progress,
) -> Result<Vec<f64>> {
    let (samples, ranks) = (&dataset.samples, group.size());
    let path = dir.join(format!("{:.16}.jsonl", key.0));
    let mut file = match group.rank() {
        0 => Some(Known::read(&path, key, samples.len())?),
        _ => None,
    };
    let mut known = of_first(group, file.as_ref().map(|file| file.log_probs.as_slice()))?;
    if known.len() == samples.len() {
        return Ok(known);
    }
    let model = load()?;
    progress.resume(compute::WHAT, samples.len() as u64, known.len() as u64);
    for round in compute::passes(samples, known.len()).chunks(ranks) {
        let longest = round.iter().map(Range::len).max().unwrap_or(0);
        let mut own = match round.get(group.rank()) {
            Some(range) => compute::pass(&model, &samples[range.clone()])?,
            None => Vec::new(),
        };
        own.resize(longest, 0.0);
        for (part, range) in gather_numbers(group, &own)?.iter().zip(round) {
            let part = &part[..range.len()];
            known.extend_from_slice(part);
            file.as_mut().map_or(Ok(()), |file| file.add(part))?;
        }
        progress.advance(known.len() as u64, "");
    }
    progress.end();
    if let Some(file) = &mut file {
        file.file.sync()?;
    }
    Ok(known)
}

/// The numbers of rank 0, on every rank.
fn of_first(group: &dyn ProcessGroup, own: Option<&[f64]>) -> Result<Vec<f64>> {
    let count = gather_numbers(group, &[own.map_or(0.0, |own| own.len() as f64)])?[0][0] as usize;
    if count == 0 {
        return Ok(Vec::new());
    }
    let numbers = own.map_or_else(|| vec![0.0; count], <[f64]>::to_vec);
    let buffer = Tensor::new(numbers, &Device::Cpu)?;
    group.broadcast(&buffer, 0)?;
    Ok(buffer.to_vec1()?)
}
