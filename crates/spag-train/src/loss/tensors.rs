//! The losses as functions of tensors: on a GPU the host need not wait for the log-probabilities.

use candle_core::{DType, Device, Result, Tensor};
use spag_rewards::SampleKind;

use super::{Parts, Scored};

/// Samples of a micro-batch as a loss sees them, with ℓ on a device. Each tensor is `[S]`, f64.
#[derive(Clone, Debug)]
pub struct ScoredTensors {
    /// ℓ: mean log-probability of the labels.
    pub log_prob: Tensor,
    /// ℓ_ref: the same under the reference model.
    pub ref_log_prob: Tensor,
    /// r.
    pub reward: Tensor,
    /// w.
    pub weight: Tensor,
    /// Labels, the denominator of ℓ.
    pub labels: Tensor,
    /// 1 for games, 0 for SFT.
    pub game: Tensor,
    /// Samples that are games.
    pub games: usize,
    /// Samples that are not.
    pub sfts: usize,
    /// Labels that are predicted, of all samples together.
    pub predicted: usize,
}

impl ScoredTensors {
    /// What is known of the samples on the host, and their ℓ. The `log_prob`s of `scored` are not read.
    ///
    /// # Errors
    /// The device cannot hold it.
    pub fn new(log_prob: Tensor, scored: &[Scored]) -> Result<Self> {
        let device = log_prob.device();
        let column = |value: fn(&Scored) -> f64| {
            let values: Vec<f64> = scored.iter().map(value).collect();
            Tensor::new(values, device)
        };
        let games = scored.iter().filter(|s| s.kind == SampleKind::Game).count();
        Ok(Self {
            ref_log_prob: column(|s| s.ref_log_prob)?,
            reward: column(|s| s.reward)?,
            weight: column(|s| s.weight)?,
            labels: column(|s| s.labels as f64)?,
            game: column(|s| f64::from(u8::from(s.kind == SampleKind::Game)))?,
            games,
            sfts: scored.len() - games,
            predicted: scored.iter().map(|s| s.predicted).sum(),
            log_prob,
        })
    }

    /// ℓ − ℓ_ref.
    pub(super) fn difference(&self) -> Result<Tensor> {
        &self.log_prob - &self.ref_log_prob
    }

    /// Number of samples.
    pub(super) fn len(&self) -> usize {
        self.games + self.sfts
    }
}

/// The value of a loss on a micro-batch, on the device of its ℓ.
#[derive(Clone, Debug)]
pub struct EvaluatedTensors {
    /// ∂loss/∂ℓ of each sample, `[S]`, f64.
    pub gradient: Tensor,
    /// The loss and its parts, `[COUNT]`, f64.
    numbers: Tensor,
    present: [bool; COUNT],
}

/// Numbers of an [`EvaluatedTensors`]: the loss, and the parts in the order of [`Parts`].
const COUNT: usize = 8;

impl EvaluatedTensors {
    /// `parts` in the order of [`Parts`]; scalars, f64.
    pub(super) fn new(gradient: Tensor, loss: Tensor, parts: [Option<Tensor>; COUNT - 1]) -> Result<Self> {
        let absent = Tensor::zeros((), DType::F64, gradient.device())?;
        let mut present = [true; COUNT];
        present.iter_mut().skip(1).zip(&parts).for_each(|(present, part)| *present = part.is_some());
        let numbers = std::iter::once(loss).chain(parts.into_iter().map(|part| part.unwrap_or_else(|| absent.clone())));
        Ok(Self { gradient, numbers: Tensor::stack(&numbers.collect::<Vec<_>>(), 0)?, present })
    }

    /// Losses and parts of several micro-batches on the host, fetched together.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn fetch(all: &[Self]) -> Result<Vec<(f64, Parts)>> {
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let numbers = Tensor::stack(&all.iter().map(|one| &one.numbers).collect::<Vec<_>>(), 0)?;
        let rows = numbers.to_device(&Device::Cpu)?.to_vec2::<f64>()?;
        Ok(rows.iter().zip(all).map(|(row, one)| (row[0], one.parts(row))).collect())
    }

    fn parts(&self, row: &[f64]) -> Parts {
        let get = |index: usize| self.present[index].then(|| row[index]);
        Parts {
            policy: get(1),
            sft: get(2),
            kl: get(3),
            importance_ratio_mean: get(4),
            importance_ratio_min: get(5),
            importance_ratio_max: get(6),
            clipped_fraction: get(7),
        }
    }
}
