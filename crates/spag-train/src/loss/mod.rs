//! The losses, as functions of each sample's mean log-probability. One loss a file.

mod offline_po;
mod sft;
mod sft_with_kl;
mod tensors;

use serde::{Deserialize, Serialize};
use spag_rewards::SampleKind;

use crate::config::{TrainConfig, TrainMethod};

pub use offline_po::OfflinePo;
pub use sft::Sft;
pub use sft_with_kl::SftWithKl;
pub use tensors::{EvaluatedTensors, ScoredTensors};

/// A sample of a micro-batch as a loss sees it.
#[derive(Clone, Copy, Debug)]
pub struct Scored {
    /// ℓ: mean log-probability of the labels.
    pub log_prob: f64,
    /// ℓ_ref: the same under the reference model; 0 where the loss has none.
    pub ref_log_prob: f64,
    /// r.
    pub reward: f64,
    /// w.
    pub weight: f64,
    /// Labels, the denominator of ℓ.
    pub labels: usize,
    /// Labels that are predicted.
    pub predicted: usize,
    /// Game or SFT.
    pub kind: SampleKind,
}

/// The value of a loss on a micro-batch.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    /// The loss.
    pub loss: f64,
    /// ∂loss/∂ℓ of each sample.
    pub gradient: Vec<f64>,
    /// What the loss is made of, for the metrics.
    pub parts: Parts,
}

/// Parts of a loss, averaged over what they speak of; absent where the method has no such part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parts {
    /// The policy part of OfflinePO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<f64>,
    /// Mean negative log-probability: of SFT rows in OfflinePO, of all rows else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sft: Option<f64>,
    /// Mean ℓ − ℓ_ref (OfflinePO) or e^ℓ·(ℓ − ℓ_ref) (SFTwithKL).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl: Option<f64>,
    /// Mean importance ratio of game samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance_ratio_mean: Option<f64>,
    /// The smallest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance_ratio_min: Option<f64>,
    /// The largest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance_ratio_max: Option<f64>,
    /// Share of game samples whose ratio lies outside the clip range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clipped_fraction: Option<f64>,
}

impl Parts {
    /// The parts of several micro-batches together: means over those that have the part, extremes over all.
    pub fn together(all: &[Self]) -> Self {
        let values = |get: fn(&Self) -> Option<f64>| all.iter().filter_map(get);
        let average = |get: fn(&Self) -> Option<f64>| mean(values(get));
        Self {
            policy: average(|p| p.policy),
            sft: average(|p| p.sft),
            kl: average(|p| p.kl),
            importance_ratio_mean: average(|p| p.importance_ratio_mean),
            importance_ratio_min: values(|p| p.importance_ratio_min).reduce(f64::min),
            importance_ratio_max: values(|p| p.importance_ratio_max).reduce(f64::max),
            clipped_fraction: average(|p| p.clipped_fraction),
        }
    }

    /// So many numbers say what the parts are.
    pub(crate) const NUMBERS: usize = 8;

    /// As numbers: which parts are there, and each.
    pub(crate) fn to_numbers(self) -> [f64; Self::NUMBERS] {
        let Self { policy, sft, kl, importance_ratio_mean: mean, importance_ratio_min: min, .. } = self;
        let all = [policy, sft, kl, mean, min, self.importance_ratio_max, self.clipped_fraction];
        let present = all.iter().enumerate().map(|(bit, part)| f64::from(u8::from(part.is_some()) << bit)).sum();
        let mut numbers = [present; Self::NUMBERS];
        numbers.iter_mut().skip(1).zip(all).for_each(|(number, part)| *number = part.unwrap_or(0.0));
        numbers
    }

    /// The parts that [`Parts::to_numbers`] gave these for.
    pub(crate) fn from_numbers(numbers: [f64; Self::NUMBERS]) -> Self {
        let present = numbers[0] as u8;
        let part = |index: usize| (present >> (index - 1) & 1 == 1).then_some(numbers[index]);
        Self {
            policy: part(1),
            sft: part(2),
            kl: part(3),
            importance_ratio_mean: part(4),
            importance_ratio_min: part(5),
            importance_ratio_max: part(6),
            clipped_fraction: part(7),
        }
    }

    /// Each part that is there, by its name in the metrics.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("policy", self.policy),
            ("sft", self.sft),
            ("kl", self.kl),
            ("importance_ratio_mean", self.importance_ratio_mean),
            ("importance_ratio_min", self.importance_ratio_min),
            ("importance_ratio_max", self.importance_ratio_max),
            ("clipped_fraction", self.clipped_fraction),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// A loss over the samples of one micro-batch.
pub trait Loss: Send + Sync {
    /// The loss and its gradient with respect to each ℓ.
    fn evaluate(&self, batch: &[Scored]) -> Evaluated;

    /// The same on the device that holds ℓ, without waiting for it.
    ///
    /// # Errors
    /// A failure of the device.
    fn evaluate_tensors(&self, batch: &ScoredTensors) -> candle_core::Result<EvaluatedTensors>;
}

/// The loss of a configuration.
pub fn of(config: &TrainConfig) -> Box<dyn Loss> {
    match config.method {
        TrainMethod::Sft => Box::new(Sft),
        TrainMethod::SftWithKl => Box::new(SftWithKl { kl: config.lm_kl_coeff }),
        TrainMethod::OfflinePo => {
            Box::new(OfflinePo { kl: config.lm_kl_coeff, sft: config.lm_sft_coeff, clip: config.clip_range })
        }
    }
}

/// The mean of an iterator, if it has any element.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};
    use proptest::prelude::*;

    use super::*;

    fn scored() -> impl Strategy<Value = Scored> {
        (-8.0..-0.01f64, -8.0..-0.01f64, 0.0..2.0f64, 0.1..3.0f64, 1..20usize, any::<bool>()).prop_map(
            |(log_prob, ref_log_prob, reward, weight, labels, sft)| Scored {
                log_prob,
                ref_log_prob,
                reward,
                weight,
                labels,
                predicted: labels,
                kind: if sft { SampleKind::Sft } else { SampleKind::Game },
            },
        )
    }

    /// Central differences against the hand-written gradient; points within `h` of a kink of the clip are passed over.
    fn differences(loss: &dyn Loss, batch: &[Scored], clip: Option<f64>) {
        let h = 1e-6;
        let analytic = loss.evaluate(batch).gradient;
        for i in 0..batch.len() {
            let at = |delta: f64| {
                let mut moved = batch.to_vec();
                moved[i].log_prob += delta;
                loss.evaluate(&moved).loss
            };
            let ratio = (batch[i].log_prob - batch[i].ref_log_prob).exp();
            if clip.is_some_and(|c| (ratio - 1.0 - c).abs() < 1e-4 || (ratio - 1.0 + c).abs() < 1e-4) {
                continue;
            }
            let numeric = (at(h) - at(-h)) / (2.0 * h);
            assert!(
                (numeric - analytic[i]).abs() <= 1e-5 * (1.0 + numeric.abs()),
                "sample {i}: {numeric} against {}",
                analytic[i]
            );
        }
    }

    fn close(got: f64, want: f64) -> bool {
        (got - want).abs() <= 1e-10 * (1.0 + want.abs())
    }

    proptest! {
        #[test]
        fn tensors_give_the_same(batch in prop::collection::vec(scored(), 1..6)) {
            let losses: [Box<dyn Loss>; 3] = [
                Box::new(Sft),
                Box::new(SftWithKl { kl: 0.1 }),
                Box::new(OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 }),
            ];
            let log_prob: Vec<f64> = batch.iter().map(|s| s.log_prob).collect();
            let log_prob = Tensor::new(log_prob, &Device::Cpu).unwrap();
            let tensors = ScoredTensors::new(log_prob, &batch).unwrap();
            for loss in losses {
                let want = loss.evaluate(&batch);
                let got = loss.evaluate_tensors(&tensors).unwrap();
                for (g, w) in got.gradient.to_vec1::<f64>().unwrap().iter().zip(&want.gradient) {
                    prop_assert!(close(*g, *w), "{} {}", g, w);
                }
                let (value, parts) = EvaluatedTensors::fetch(&[got]).unwrap()[0];
                prop_assert!(close(value, want.loss), "{} {}", value, want.loss);
                let (parts, want): (Vec<_>, Vec<_>) = (parts.named().collect(), want.parts.named().collect());
                prop_assert_eq!(parts.len(), want.len());
                for ((name, g), (same, w)) in parts.iter().zip(&want) {
                    prop_assert!(name == same && close(*g, *w), "{}: {} {}", name, g, w);
                }
            }
        }

        #[test]
        fn gradients_equal_finite_differences(batch in prop::collection::vec(scored(), 1..6)) {
            differences(&Sft, &batch, None);
            differences(&SftWithKl { kl: 0.1 }, &batch, None);
            differences(&OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 }, &batch, Some(0.2));
        }
    }

    #[test]
    fn parts_are_the_same_after_a_way_as_numbers() {
        let some = Parts { sft: Some(1.5), importance_ratio_max: Some(f64::INFINITY), ..Parts::default() };
        let all = Parts { policy: Some(0.0), kl: Some(-2.0), clipped_fraction: Some(0.25), ..some };
        for parts in [Parts::default(), some, all] {
            assert_eq!(Parts::from_numbers(parts.to_numbers()), parts);
        }
    }

    #[test]
    fn a_missing_kind_adds_nothing() {
        let loss = OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 };
        let game = Scored {
            log_prob: -1.0,
            ref_log_prob: -1.0,
            reward: 0.5,
            weight: 2.0,
            labels: 3,
            predicted: 3,
            kind: SampleKind::Game,
        };
        let only_games = loss.evaluate(&[game]);
        assert!((only_games.loss - -1.0).abs() < 1e-12 && only_games.parts.sft.is_none());
        let only_sft = loss.evaluate(&[Scored { kind: SampleKind::Sft, weight: 1.0, ..game }]);
        assert!((only_sft.loss - 0.5).abs() < 1e-12 && only_sft.parts.policy.is_none());
        assert_eq!(loss.evaluate(&[]).loss, 0.0);
    }
}
