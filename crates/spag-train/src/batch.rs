//! Micro-batches, packed without padding.

use candle_core::{DType, Result, Tensor};
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::Distribution;
use spag_rewards::SampleKind;

use crate::loss::{Loss, SampleCounts};
use crate::packing::Packing;
use crate::passes::StepSample;
use crate::trajectory::{Span, Trajectory};

/// A micro-batch. Made from trajectories; read by the learner and the losses. Its samples are the spans of the trajectories.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The trajectories' sequences.
    pub packed: PackedBatch,
    /// Tokens of the trajectories.
    pub tokens: usize,
    /// Every predicted label, sample after sample.
    pub targets: Targets,
    /// Everything else about the samples.
    pub samples: Vec<BatchSample>,
    /// Log-probability of each target at sampling, where it is known, `[M]`.
    pub sampling_log_probs: Vec<Option<f32>>,
    /// Log-probability of each target under the reference model, where it has been computed, `[M]`.
    pub ref_log_probs: Vec<Option<f32>>,
}

/// A span of a trajectory in a batch, without its tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchSample {
    /// 0-based row in the training data.
    pub row: usize,
    /// w.
    pub weight: f64,
    /// r.
    pub reward: f64,
    /// Game or SFT.
    pub kind: SampleKind,
    /// ℓ_ref: mean log-probability of the labels under the reference model, if it has been computed.
    pub ref_log_prob: Option<f64>,
    /// Labels: the denominator of ℓ.
    pub labels: usize,
    /// Labels that are predicted.
    pub predicted: usize,
    /// What its own loss is divided by in the step's, for a loss that is a sum of such ([`Loss::divisor`](crate::loss::Loss::divisor)).
    pub divisor: f64,
}

impl Batch {
    /// Packs trajectories, whose divisors are 1. Targets are in their order; with a tree several may be at one row.
    pub fn new<'a>(trajectories: impl IntoIterator<Item = &'a Trajectory>, packing: Packing) -> Self {
        let sample = |trajectory| StepSample { trajectory, divisor: 1.0 };
        Self::of(&trajectories.into_iter().map(sample).collect::<Vec<_>>(), packing)
    }

    /// The same, as a micro-batch of its own.
    pub fn with_divisors(mut self, loss: &dyn Loss) -> Self {
        let counts: SampleCounts = self.samples.iter().map(|sample| (sample.kind, sample.predicted)).collect();
        for sample in &mut self.samples {
            sample.divisor = loss.divisor(counts, sample.kind).unwrap_or(1).max(1) as f64;
        }
        self
    }

    /// Packs samples of a step.
    pub(crate) fn of(samples: &[StepSample<'_>], packing: Packing) -> Self {
        let trajectories: Vec<&Trajectory> = samples.iter().map(|sample| sample.trajectory).collect();
        let (packed, rows) = packing.pack(&trajectories);
        let tokens = trajectories.iter().map(|trajectory| trajectory.ids.len()).sum();
        let mut batch = Self { packed, tokens, ..Self::default() };
        let spans = || trajectories.iter().flat_map(|trajectory| &trajectory.spans);
        let is_drawn = spans().any(|span| span.distributions.is_some());
        for (StepSample { trajectory, divisor }, rows) in samples.iter().zip(rows) {
            for span in &trajectory.spans {
                let in_sequence = span.predicted_tokens().map(|at| (at, trajectory.ids[at]));
                for (offset, id) in in_sequence.chain(span.leaf.map(|leaf| (span.tokens.end, leaf))) {
                    // The row before a label predicts it.
                    batch.targets.rows.push(rows[offset - 1]);
                    batch.targets.tokens.push(id);
                }
                batch.sampling_log_probs.extend(of_targets(span, span.sampling_log_probs.as_deref()));
                batch.ref_log_probs.extend(of_targets(span, span.ref_token_log_probs.as_deref()));
                if is_drawn {
                    let distributions = of_targets(span, span.distributions.as_deref()).into_iter();
                    let known = distributions.map(|one| one.unwrap_or_else(Distribution::of_model));
                    batch.targets.distributions.extend(known);
                }
                batch.samples.push(BatchSample {
                    row: trajectory.row,
                    weight: span.weight,
                    reward: span.reward,
                    kind: span.kind,
                    ref_log_prob: span.ref_log_prob,
                    labels: span.labels(),
                    predicted: span.predicted(),
                    divisor: *divisor,
                });
            }
        }
        batch
    }

    /// ℓ of each sample, `[S]`, from the log-probabilities of all targets, `[M]`; f64.
    pub(crate) fn mean_log_probs(&self, token_log_probs: &Tensor) -> Result<Tensor> {
        let device = token_log_probs.device();
        let (count, longest) = (self.targets.rows.len(), self.samples.iter().map(|s| s.predicted).max().unwrap_or(0));
        // One row a sample, filled up with a zero that is put after the last target.
        let mut rows = vec![count as u32; self.samples.len() * longest];
        let mut first = 0;
        for (row, sample) in rows.chunks_exact_mut(longest.max(1)).zip(&self.samples) {
            row.iter_mut().zip(first..).take(sample.predicted).for_each(|(at, token)| *at = token);
            first += sample.predicted as u32;
        }
        let filled = Tensor::cat(&[token_log_probs, &Tensor::zeros(1, DType::F64, device)?], 0)?;
        let padded = filled.index_select(&Tensor::new(rows, device)?, 0)?.reshape((self.samples.len(), longest))?;
        padded.sum(1)? / self.label_counts(device)?
    }

    /// The gradient of each target's log-probability, `[M]`, from those of ℓ, `[S]`; f64.
    pub(crate) fn spread(&self, gradient: &Tensor) -> Result<Tensor> {
        let samples = self.samples.iter().zip(0u32..);
        let sample_of_token: Vec<u32> =
            samples.flat_map(|(s, index)| std::iter::repeat_n(index, s.predicted)).collect();
        let each = (gradient / self.label_counts(gradient.device())?)?;
        each.index_select(&Tensor::new(sample_of_token, gradient.device())?, 0)
    }

    fn label_counts(&self, device: &candle_core::Device) -> Result<Tensor> {
        Tensor::new(self.samples.iter().map(|s| s.labels.max(1) as f64).collect::<Vec<_>>(), device)
    }
}

/// Of what a span has for each label, that of each label that is predicted.
fn of_targets<T: Clone>(span: &Span, labels: Option<&[T]>) -> Vec<Option<T>> {
    match labels {
        Some(labels) => labels.iter().cloned().map(Some).skip(labels.len().saturating_sub(span.predicted())).collect(),
        None => vec![None; span.predicted()],
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn means_and_gradients_match_sums_on_the_host() {
        let sample = |length: u32, prompt_len| Trajectory {
            row: 0,
            ids: (0..length).collect(),
            spans: vec![Span::new(prompt_len..length as usize, 1.0)],
        };
        // The first label of the third sample is not predicted.
        let samples = [sample(7, 3), sample(2, 1), sample(9, 0)];
        let batch = Batch::new(&samples, Packing::None);
        assert_eq!(batch.targets.rows.len(), 4 + 1 + 8);
        let log_probs: Vec<f64> = (0..13).map(|i| f64::from(-0.37 * i as f32)).collect();
        let tensor = Tensor::new(log_probs.as_slice(), &Device::Cpu).unwrap();
        let mean = |range: std::ops::Range<usize>, labels: f64| log_probs[range].iter().sum::<f64>() / labels;
        let means = batch.mean_log_probs(&tensor).unwrap().to_vec1::<f64>().unwrap();
        assert_eq!(means, [mean(0..4, 4.0), mean(4..5, 1.0), mean(5..13, 9.0)]);
        let gradient = batch.spread(&Tensor::new(&[0.5, -1.0, 0.1], &Device::Cpu).unwrap()).unwrap();
        let want: Vec<f64> = [(0.5 / 4.0, 4), (-1.0, 1), (0.1 / 9.0, 8)].map(|(g, n)| vec![g; n]).concat();
        assert_eq!(gradient.to_vec1::<f64>().unwrap(), want);
    }

    #[test]
    fn spans_of_a_trajectory_are_samples_of_their_own() {
        let known = Span { sampling_log_probs: Some(vec![-0.5, -0.25]), ..Span::new(0..2, 1.0) };
        let ids = vec![10, 11, 12, 13, 14];
        let two = Trajectory { row: 3, ids: ids.clone(), spans: vec![known, Span::new(3..5, -1.0)] };
        let batch = Batch::new(&[two.clone(), Trajectory { spans: vec![Span::new(4..5, 0.0)], ..two }], Packing::None);
        // The label at position 0 is not predicted.
        assert_eq!(batch.targets.rows, [0, 2, 3, 8]);
        assert_eq!(batch.targets.tokens, [11, 13, 14, 14]);
        assert_eq!(batch.sampling_log_probs, [Some(-0.25), None, None, None]);
        let rewards: Vec<f64> = batch.samples.iter().map(|sample| sample.reward).collect();
        assert_eq!((rewards, batch.samples[0].labels, batch.samples[0].predicted), (vec![1.0, -1.0, 0.0], 2, 1));
    }

    #[test]
    fn a_leaf_is_a_second_target_of_the_last_row() {
        let ended = |tokens, log_probs| Span {
            leaf: Some(2),
            sampling_log_probs: Some(log_probs),
            ref_token_log_probs: Some(vec![-3.0; 3]),
            ..Span::new(tokens, 1.0)
        };
        let spans = vec![ended(0..2, vec![-0.5, -0.25, -0.125]), Span { leaf: Some(2), ..Span::new(3..3, 1.0) }];
        let batch = Batch::new(&[Trajectory { row: 0, ids: vec![10, 11, 12, 13], spans }], Packing::None);
        assert_eq!(batch.packed.len(), 4);
        // 13 and the second leaf would both follow the token at position 2.
        assert_eq!((batch.targets.rows, batch.targets.tokens), (vec![0, 1, 2], vec![11, 2, 2]));
        assert_eq!(batch.sampling_log_probs, [Some(-0.25), Some(-0.125), None]);
        assert_eq!(batch.ref_log_probs, [Some(-3.0), Some(-3.0), None]);
        let counts: Vec<_> = batch.samples.iter().map(|sample| (sample.labels, sample.predicted)).collect();
        assert_eq!(counts, [(3, 2), (1, 1)]);
    }

    #[test]
    fn samples_of_a_tree_predict_at_common_rows() {
        let of = |ids: &[u32], spans| Trajectory { row: 0, ids: ids.to_vec(), spans };
        let samples = [
            of(&[1, 5, 6, 2], vec![Span::new(2..4, 1.0)]),
            of(&[1, 5, 7, 2], vec![Span::new(2..4, 1.0)]),
            of(&[1, 5, 6, 8, 9], vec![Span { leaf: Some(2), ..Span::new(1..2, 1.0) }, Span::new(3..4, 1.0)]),
        ];
        let batch = Batch::new(&samples, Packing::Tree);
        // What follows the last prediction of a sample has no row: both 2, the 8 and the 9.
        assert_eq!(batch.packed.ids, [1, 5, 6, 7]);
        assert_eq!((batch.tokens, &batch.packed.parents), (13, &vec![None, Some(0), Some(0)]));
        assert_eq!(batch.targets.rows, [1, 2, 1, 3, 0, 1, 2]);
        assert_eq!(batch.targets.tokens, Batch::new(&samples, Packing::None).targets.tokens);
    }

    #[test]
    fn a_sample_without_predictions_has_a_row() {
        let alone = Trajectory { row: 0, ids: vec![7, 8], spans: vec![Span::new(0..1, 1.0)] };
        let batch = Batch::new(&[alone], Packing::Tree);
        assert_eq!((batch.packed.ids, batch.targets.rows), (vec![7], vec![]));
    }
}
