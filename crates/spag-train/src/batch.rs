//! Micro-batches: which samples, packed without padding.

use candle_core::{DType, Result, Tensor};
use spag_model::{PackedBatch, Targets};

use crate::encode::Encoded;

/// Samples of one micro-batch, packed. Made from [`Encoded`] samples; read by the trainer.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The samples' sequences.
    pub packed: PackedBatch,
    /// Every predicted label, sample after sample.
    pub targets: Targets,
    /// Predicted labels of each sample.
    pub counts: Vec<usize>,
}

impl Batch {
    /// Packs `samples` in order.
    pub fn new<'a>(samples: impl IntoIterator<Item = &'a Encoded> + Clone) -> Self {
        let packed = PackedBatch::new(samples.clone().into_iter().map(|s| s.ids.as_slice()));
        let (mut targets, mut counts, mut start) = (Targets::default(), Vec::new(), 0u32);
        for sample in samples {
            // The row before a label predicts it.
            let first = sample.prompt_len.max(1);
            for (offset, id) in sample.ids.iter().enumerate().skip(first) {
                targets.rows.push(start + offset as u32 - 1);
                targets.tokens.push(*id);
            }
            counts.push(sample.predicted());
            start += sample.ids.len() as u32;
        }
        Self { packed, targets, counts }
    }

    /// Each sample's mean log-probability from those of its targets.
    pub fn means(&self, log_probs: &[f32], samples: &[&Encoded]) -> Vec<f64> {
        let mut rest = log_probs;
        self.counts
            .iter()
            .zip(samples)
            .map(|(count, sample)| {
                let (own, others) = rest.split_at((*count).min(rest.len()));
                rest = others;
                own.iter().map(|p| f64::from(*p)).sum::<f64>() / sample.labels().max(1) as f64
            })
            .collect()
    }

    /// ∂loss/∂(log-probability) of every target from ∂loss/∂ℓ of every sample.
    pub fn spread(&self, gradient: &[f64], samples: &[&Encoded]) -> Vec<f32> {
        let per_sample = self.counts.iter().zip(samples).zip(gradient);
        per_sample
            .flat_map(|((count, sample), g)| std::iter::repeat_n((g / sample.labels().max(1) as f64) as f32, *count))
            .collect()
    }

    /// As [`Batch::means`] on the device that holds `log_probs` (`[M]`, f32): `[S]`, f64.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn means_on_device(&self, log_probs: &Tensor, samples: &[&Encoded]) -> Result<Tensor> {
        let wide = log_probs.to_dtype(DType::F64)?;
        let mut start = 0;
        let means = self.counts.iter().zip(samples).map(|(count, sample)| {
            let own = wide.narrow(0, start, *count)?;
            start += count;
            own.sum_keepdim(0)? / sample.labels().max(1) as f64
        });
        Tensor::cat(&means.collect::<Result<Vec<_>>>()?, 0)
    }

    /// As [`Batch::spread`] on the device that holds `gradient` (`[S]`, f64): `[M]`, f32.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn spread_on_device(&self, gradient: &Tensor, samples: &[&Encoded]) -> Result<Tensor> {
        let parts = self.counts.iter().zip(samples).enumerate().map(|(index, (count, sample))| {
            (gradient.narrow(0, index, 1)? / sample.labels().max(1) as f64)?.to_dtype(DType::F32)?.broadcast_as(*count)
        });
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use spag_rewards::SampleKind;

    use super::*;

    #[test]
    fn a_device_gives_the_means_and_gradients_of_the_host() {
        let sample = |length: u32, prompt_len| Encoded {
            row: 0,
            ids: (0..length).collect(),
            prompt_len,
            weight: 1.0,
            reward: 1.0,
            kind: SampleKind::Game,
        };
        let samples = [sample(7, 3), sample(2, 1), sample(9, 1)];
        let samples: Vec<&Encoded> = samples.iter().collect();
        let batch = Batch::new(samples.iter().copied());
        let log_probs: Vec<f32> = (0..batch.targets.rows.len()).map(|i| -0.37 * i as f32).collect();
        let tensor = Tensor::new(log_probs.as_slice(), &Device::Cpu).unwrap();
        let means = batch.means_on_device(&tensor, &samples).unwrap().to_vec1::<f64>().unwrap();
        for (got, want) in means.iter().zip(batch.means(&log_probs, &samples)) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
        let gradient = [0.5, -1.0, 0.1];
        let spread = batch.spread_on_device(&Tensor::new(&gradient, &Device::Cpu).unwrap(), &samples).unwrap();
        assert_eq!(spread.to_vec1::<f32>().unwrap(), batch.spread(&gradient, &samples));
    }
}
