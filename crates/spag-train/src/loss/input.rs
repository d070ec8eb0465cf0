//! What a loss reads.

use candle_core::{DType, Tensor, Var};
use spag_rewards::SampleKind;

use crate::batch::{Batch, BatchSample};
use crate::error::{Error, Result};
use crate::metrics::{Metric, MetricTensor};

/// The log-probabilities of a micro-batch of S samples with M predicted tokens, with what is known of each sample.
/// Tensors are f64, on the device of the log-probabilities.
#[derive(Clone, Debug)]
pub struct LossInput {
    samples: Vec<BatchSample>,
    log_probs: Tensor,
    /// Of the whole micro-batch.
    token_log_probs: Tensor,
    /// Of these samples' tokens.
    sampling_log_probs: Vec<Option<f32>>,
    ref_token_log_probs: Vec<Option<f32>>,
    /// Where in `token_log_probs` these samples' tokens are, if they are not all.
    token_rows: Option<Vec<u32>>,
}

impl LossInput {
    /// From the log-probability of every target of the batch, `[M]`, f32.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn new(batch: &Batch, token_log_probs: &Tensor) -> Result<Self> {
        let tokens = token_log_probs.to_dtype(DType::F64)?;
        // Variables: the leaves that gradients are computed for.
        let log_probs = Var::from_tensor(&batch.mean_log_probs(&tokens)?)?.into_inner();
        let token_log_probs = Var::from_tensor(&tokens)?.into_inner();
        Ok(Self {
            samples: batch.samples.clone(),
            log_probs,
            token_log_probs,
            sampling_log_probs: batch.sampling_log_probs.clone(),
            ref_token_log_probs: batch.ref_log_probs.clone(),
            token_rows: None,
        })
    }

    /// The samples, S.
    pub fn samples(&self) -> &[BatchSample] {
        &self.samples
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The samples of one kind.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn of_kind(&self, kind: SampleKind) -> Result<Self> {
        self.select(|sample| sample.kind == kind)
    }

    /// The samples that `keep` accepts.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn select(&self, keep: impl Fn(&BatchSample) -> bool) -> Result<Self> {
        if self.samples.iter().all(&keep) {
            return Ok(self.clone());
        }
        let (mut samples, mut rows, mut token_rows) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sampling_log_probs, mut ref_token_log_probs) = (Vec::new(), Vec::new());
        let mut first_token = 0;
        for (row, sample) in self.samples.iter().enumerate() {
            let tokens = first_token..first_token + sample.predicted;
            if keep(sample) {
                samples.push(*sample);
                rows.push(row as u32);
                sampling_log_probs.extend_from_slice(&self.sampling_log_probs[tokens.clone()]);
                ref_token_log_probs.extend_from_slice(&self.ref_token_log_probs[tokens.clone()]);
                token_rows.extend(tokens.clone().map(|at| self.token_rows.as_ref().map_or(at as u32, |rows| rows[at])));
            }
            first_token = tokens.end;
        }
        let log_probs = match rows.is_empty() {
            true => Tensor::zeros(0, DType::F64, self.log_probs.device())?,
            false => self.log_probs.index_select(&Tensor::new(rows, self.log_probs.device())?, 0)?,
        };
        Ok(Self {
            samples,
            log_probs,
            token_log_probs: self.token_log_probs.clone(),
            sampling_log_probs,
            ref_token_log_probs,
            token_rows: Some(token_rows),
        })
    }

    /// ℓ: each sample's mean log-probability over its labels, `[S]`.
    pub fn log_probs(&self) -> &Tensor {
        &self.log_probs
    }

    /// The log-probability of every predicted token, sample after sample, `[M]`.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn token_log_probs(&self) -> Result<Tensor> {
        match &self.token_rows {
            None => Ok(self.token_log_probs.clone()),
            Some(rows) => {
                let rows = Tensor::new(rows.as_slice(), self.token_log_probs.device())?;
                Ok(self.token_log_probs.index_select(&rows, 0)?)
            }
        }
    }

    /// A constant of each sample, `[S]`.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn per_sample(&self, value: impl Fn(&BatchSample) -> f64) -> Result<Tensor> {
        let values: Vec<f64> = self.samples.iter().map(value).collect();
        Ok(Tensor::new(values, self.log_probs.device())?)
    }

    /// A constant of each sample, for every predicted token of it, `[M]`.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn per_token(&self, value: impl Fn(&BatchSample) -> f64) -> Result<Tensor> {
        let values = self.samples.iter().flat_map(|sample| std::iter::repeat_n(value(sample), sample.predicted));
        Ok(Tensor::new(values.collect::<Vec<f64>>(), self.log_probs.device())?)
    }

    /// The sum over samples of what each has, `[S]`, over its [divisor](BatchSample::divisor).
    ///
    /// # Errors
    /// A failure of the device.
    pub fn sum(&self, each: &Tensor) -> Result<Tensor> {
        Ok((each / self.per_sample(|sample| sample.divisor)?)?.sum_all()?)
    }

    /// The mean over samples of what each has, `[S]`, in which a sample counts 1 over its divisor: a metric.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn mean(&self, metric: Metric, each: &Tensor) -> Result<MetricTensor> {
        Ok(self.of_sum(metric, &self.sum(each)?)?)
    }

    /// The mean of which this is the [sum](LossInput::sum).
    pub(super) fn of_sum(&self, metric: Metric, sum: &Tensor) -> candle_core::Result<MetricTensor> {
        let weight: f64 = self.samples.iter().map(|sample| 1.0 / sample.divisor).sum();
        let value = if weight > 0.0 { (sum / weight)? } else { sum.clone() };
        Ok(MetricTensor { weight, ..metric.of(value) })
    }

    /// w, `[S]`.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn weights(&self) -> Result<Tensor> {
        self.per_sample(|sample| sample.weight)
    }

    /// r, `[S]`.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn rewards(&self) -> Result<Tensor> {
        self.per_sample(|sample| sample.reward)
    }

    /// ℓ_ref: each sample's mean log-probability under the reference model, `[S]`.
    ///
    /// # Errors
    /// [`Error::NoReference`] if a sample has none, or a failure of the device.
    pub fn ref_log_probs(&self) -> Result<Tensor> {
        let values: Option<Vec<f64>> = self.samples.iter().map(|sample| sample.ref_log_prob).collect();
        Ok(Tensor::new(values.ok_or(Error::NoReference)?, self.log_probs.device())?)
    }

    /// The log-probability of every predicted token under the policy that sampled it, `[M]`, a constant. Where it is unknown,
    /// it is the learner's own: an importance ratio of 1.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn sampling_log_probs(&self) -> Result<Tensor> {
        let own = self.token_log_probs()?.detach();
        let known: Vec<u8> = self.sampling_log_probs.iter().map(|one| u8::from(one.is_some())).collect();
        let values: Vec<f64> = self.sampling_log_probs.iter().map(|one| one.map_or(0.0, f64::from)).collect();
        let (known, values) = (Tensor::new(known, own.device())?, Tensor::new(values, own.device())?);
        Ok(known.where_cond(&values, &own)?)
    }

    /// The log-probability of every predicted token under the reference model, `[M]`, a constant.
    ///
    /// # Errors
    /// [`Error::NoReference`] if a token has none, or a failure of the device.
    pub fn ref_token_log_probs(&self) -> Result<Tensor> {
        let values: Option<Vec<f64>> = self.ref_token_log_probs.iter().map(|one| one.map(f64::from)).collect();
        Ok(Tensor::new(values.ok_or(Error::NoReference)?, self.log_probs.device())?)
    }

    /// ∂loss/∂(log-probability) of every target, `[M]`, f32, times `scale`.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn gradient(&self, batch: &Batch, loss: &Tensor, scale: f64) -> Result<Tensor> {
        let gradients = loss.backward()?;
        let per_sample =
            gradients.get(&self.log_probs).map(|gradient| batch.spread(&(gradient * scale)?)).transpose()?;
        let per_token = gradients.get(&self.token_log_probs).map(|gradient| gradient * scale).transpose()?;
        let sum = match (per_sample, per_token) {
            (Some(a), Some(b)) => (a + b)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.token_log_probs.zeros_like()?,
        };
        Ok(sum.to_dtype(DType::F32)?)
    }
}
