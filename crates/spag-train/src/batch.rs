//! Micro-batches: which samples, packed without padding.

use spag_model::{Packed, Targets};

use crate::encode::Encoded;

/// Samples of one micro-batch, packed. Made from [`Encoded`] samples; read by the trainer.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The samples' sequences.
    pub packed: Packed,
    /// Every predicted label, sample after sample.
    pub targets: Targets,
    /// Predicted labels of each sample.
    pub counts: Vec<usize>,
}

impl Batch {
    /// Packs `samples` in order.
    pub fn new<'a>(samples: impl IntoIterator<Item = &'a Encoded> + Clone) -> Self {
        let packed = Packed::new(samples.clone().into_iter().map(|s| s.ids.as_slice()));
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
}
