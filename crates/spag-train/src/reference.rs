//! ℓ_ref: the mean log-probability of every sample under the frozen reference model.
//!
//! It is constant for a data set. It is computed before the first step, after which the reference model is dropped, and
//! kept in a file, so that a resumed run computes only what is missing.

use std::ops::Range;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spag_dist::{ProcessGroup, gather_numbers};
use spag_io::{JsonlAppender, Progress, hex};
use spag_model::Model;
use spag_model::checkpoint::weights_digest;
use spag_model::dtype::WeightDtype;
use spag_model::model::Network;
use spag_model::params::WeightSource;

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::packing::Packing;
use crate::row_origins::RowOrigins;
use crate::trajectory::Trajectory;

/// Tokens of one forward pass.
const TOKENS: usize = 4096;

/// Trees whatever the settings are: on a CPU no bit of a log-probability depends on it.
const PACKING: Packing = Packing::Tree;

/// The name of this part in progress bars.
const WHAT: &str = "reference log-probabilities";

/// ℓ_ref of every span of the trajectories, in order.
///
/// # Errors
/// A trajectory that the model cannot read, or whose log-probability is not finite.
pub fn reference_log_probs(model: &Model, samples: &[Trajectory], progress: &mut dyn Progress) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(samples.len());
    progress.begin(WHAT, samples.len() as u64);
    for range in passes(samples, 0) {
        all.extend(pass(model, &samples[range], &RowOrigins::default())?);
        progress.advance(all.len() as u64, "");
    }
    progress.end();
    Ok(all)
}

/// Gives every span its log-probabilities under a reference model, per label and their mean ℓ_ref.
///
/// With the network of a [`Learner`](crate::Learner) and the weights of the reference, both compute in the same arithmetic: the
/// log-probabilities of equal weights are equal.
///
/// # Errors
/// As [`reference_log_probs`].
pub fn add_reference(network: &Network, weights: &dyn WeightSource, trajectories: &mut [Trajectory]) -> Result<()> {
    for range in passes(trajectories, 0) {
        let part = &mut trajectories[range];
        let batch = Batch::new(&*part, PACKING.of_model(&network.config().architecture));
        let log_probs = network.log_probs(weights, &batch.packed, &batch.targets)?;
        let means = means(&batch, &log_probs, &RowOrigins::default())?;
        let (mut log_probs, mut means) = (log_probs.into_iter(), means.into_iter());
        for span in part.iter_mut().flat_map(|trajectory| &mut trajectory.spans) {
            // A label that is not predicted has none.
            let unpredicted = std::iter::repeat_n(0.0, span.labels() - span.predicted());
            let of_span = unpredicted.chain(log_probs.by_ref().take(span.predicted())).collect();
            (span.ref_token_log_probs, span.ref_log_prob) = (Some(of_span), means.next());
        }
    }
    Ok(())
}

/// The passes over the samples from `start` on, which has to be the end of an earlier pass: which samples share a pass
/// depends on the first one.
fn passes(samples: &[Trajectory], start: usize) -> Vec<Range<usize>> {
    let (mut passes, mut start) = (Vec::new(), start);
    while start < samples.len() {
        let (mut end, mut tokens) = (start, 0);
        while end < samples.len() && (end == start || tokens + samples[end].ids.len() <= TOKENS) {
            tokens += samples[end].ids.len();
            end += 1;
        }
        passes.push(start..end);
        start = end;
    }
    passes
}

/// ℓ_ref of the spans of one pass, whose rows are named by `origins`.
fn pass(model: &Model, samples: &[Trajectory], origins: &RowOrigins) -> Result<Vec<f64>> {
    let batch = Batch::new(samples, PACKING.of_model(&model.config().architecture));
    means(&batch, &model.log_probs(&batch.packed, &batch.targets)?, origins)
}

/// ℓ_ref of the samples of a batch from the log-probability of each target.
fn means(batch: &Batch, log_probs: &[f32], origins: &RowOrigins) -> Result<Vec<f64>> {
    let log_probs = Tensor::new(log_probs, &Device::Cpu)?;
    let means = batch.mean_log_probs(&log_probs.to_dtype(DType::F64)?)?.to_vec1::<f64>()?;
    match batch.samples.iter().zip(&means).find(|(_, mean)| !mean.is_finite()) {
        Some((sample, value)) => {
            let (row, value) = (sample.row, *value);
            Err(Error::Reference { row, place: origins.name(row), value })
        }
        None => Ok(means),
    }
}

/// A digest of what ℓ_ref depends on: the samples' tokens (so the data, the tokenizer and `max_length`) and the reference
/// model's configuration and weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReferenceKey(String);

impl ReferenceKey {
    /// The file of these ℓ_ref in `dir`.
    pub(crate) fn file(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{:.16}.jsonl", self.0))
    }

    /// The key of a data set under the reference model in `folder`, its weights rounded to `dtype`.
    pub(crate) fn new(dataset: &Dataset, max_length: usize, folder: &Path, dtype: WeightDtype) -> Result<Self> {
        let mut hash = Sha256::new();
        hash.update(dataset.token_digest());
        hash.update((max_length as u64).to_le_bytes());
        hash.update(weights_digest(folder)?);
        hash.update([dtype.bytes() as u8]);
        Ok(Self(hex(&hash.finalize())))
    }
}

/// A line of the file: first what it is about, then one line a forward pass.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Head { key: String, samples: usize },
    Part { first: usize, log_probs: Vec<f64> },
}

/// The file of a data set's ℓ_ref, on rank 0.
struct Cache {
    file: JsonlAppender<Line>,
    log_probs: Vec<f64>,
}

impl Cache {
    fn open(path: &Path, key: &ReferenceKey, count: usize) -> Result<Self> {
        let (mut file, lines) = JsonlAppender::<Line>::resume(path)?;
        let mut log_probs = Vec::with_capacity(count);
        let foreign = || Error::ForeignFile { path: path.to_owned(), what: WHAT };
        match lines.first() {
            None => file.append(&Line::Head { key: key.0.clone(), samples: count })?,
            Some(Line::Head { key: of, samples }) if *of == key.0 && *samples == count => {}
            Some(_) => return Err(foreign()),
        }
        for line in lines.into_iter().skip(1) {
            match line {
                Line::Part { first, log_probs: part } if first == log_probs.len() => log_probs.extend(part),
                _ => return Err(foreign()),
            }
        }
        if log_probs.len() > count {
            return Err(foreign());
        }
        Ok(Self { file, log_probs })
    }

    fn append(&mut self, part: &[f64]) -> Result<()> {
        let first = self.log_probs.len();
        self.log_probs.extend_from_slice(part);
        Ok(self.file.append(&Line::Part { first, log_probs: part.to_vec() })?)
    }
}

/// ℓ_ref of every sample of `dataset`, and how many of them were in the file of `key` in `dir`, which rank 0 reads and writes.
/// What is missing is computed with the model that `load` returns, a pass on every rank at a time, and appended.
pub(crate) fn cached_reference_log_probs(
    group: &dyn ProcessGroup,
    dir: &Path,
    key: &ReferenceKey,
    dataset: &Dataset,
    load: impl FnOnce() -> Result<Model>,
    progress: &mut dyn Progress,
) -> Result<(Vec<f64>, usize)> {
    let (samples, ranks) = (dataset.samples(), group.size());
    let path = key.file(dir);
    let mut cache = if group.rank() == 0 { Some(Cache::open(&path, key, samples.len())?) } else { None };
    let mut known = broadcast_numbers(group, cache.as_ref().map(|cache| cache.log_probs.as_slice()))?;
    let kept = known.len();
    if kept == samples.len() {
        return Ok((known, kept));
    }
    let model = load()?;
    progress.resume(WHAT, samples.len() as u64, known.len() as u64);
    for round in passes(samples, known.len()).chunks(ranks) {
        let longest = round.iter().map(Range::len).max().unwrap_or(0);
        let mut own = match round.get(group.rank()) {
            Some(range) => pass(&model, &samples[range.clone()], &dataset.origins)?,
            None => Vec::new(),
        };
        own.resize(longest, 0.0);
        for (part, range) in gather_numbers(group, &own)?.iter().zip(round) {
            let part = &part[..range.len()];
            known.extend_from_slice(part);
            cache.as_mut().map_or(Ok(()), |cache| cache.append(part))?;
        }
        progress.advance(known.len() as u64, "");
    }
    progress.end();
    if let Some(cache) = &cache {
        cache.file.sync()?;
    }
    Ok((known, kept))
}

/// The numbers of rank 0, on every rank.
fn broadcast_numbers(group: &dyn ProcessGroup, own: Option<&[f64]>) -> Result<Vec<f64>> {
    let count = gather_numbers(group, &[own.map_or(0.0, |own| own.len() as f64)])?[0][0] as usize;
    if count == 0 {
        return Ok(Vec::new());
    }
    let numbers = own.map_or_else(|| vec![0.0; count], <[f64]>::to_vec);
    let buffer = Tensor::new(numbers, &Device::Cpu)?;
    group.broadcast(&buffer, 0)?;
    Ok(buffer.to_vec1()?)
}
