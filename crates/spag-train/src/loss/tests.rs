//! Every loss against finite differences, and two losses that only this file defines: a token-level and a pairwise one.

mod policy_gradient;

use candle_core::{Device, Tensor};
use proptest::prelude::*;
use spag_rewards::SampleKind;

use super::*;
use crate::batch::{Batch, BatchSample};
use crate::metrics::MetricValues;
use crate::packing::Packing;
use crate::trajectory::{Span, Trajectory};

/// A sample of tokens with these log-probabilities.
#[derive(Clone, Debug)]
struct Case {
    log_probs: Vec<f32>,
    /// Whether the first label has no token before it.
    unpredicted_label: bool,
    ref_log_prob: f64,
    reward: f64,
    weight: f64,
    kind: SampleKind,
}

fn case() -> impl Strategy<Value = Case> {
    let log_probs = prop::collection::vec(-8.0..-0.01f32, 1..8);
    (log_probs, any::<bool>(), -0.5..0.5f64, -2.0..2.0f64, 0.1..3.0f64, any::<bool>()).prop_map(
        |(log_probs, unpredicted_label, apart, reward, weight, sft)| {
            let labels = log_probs.len() + usize::from(unpredicted_label);
            let mean = log_probs.iter().map(|x| f64::from(*x)).sum::<f64>() / labels as f64;
            let kind = if sft { SampleKind::Sft } else { SampleKind::Game };
            Case { log_probs, unpredicted_label, ref_log_prob: mean + apart, reward, weight, kind }
        },
    )
}

fn batch(loss: &dyn Loss, cases: &[Case]) -> Batch {
    let trajectory = |case: &Case| {
        let labels = usize::from(!case.unpredicted_label)..case.log_probs.len() + 1;
        let (kind, weight, ref_log_prob) = (case.kind, case.weight, Some(case.ref_log_prob));
        let span = Span { kind, weight, ref_log_prob, ..Span::new(labels, case.reward) };
        Trajectory { row: 0, ids: vec![1; case.log_probs.len() + 1], spans: vec![span] }
    };
    Batch::new(&cases.iter().map(trajectory).collect::<Vec<_>>(), Packing::None).with_divisors(loss)
}

/// Log-probabilities as f64: finite differences of f32 numbers would be too coarse.
fn input(batch: &Batch, log_probs: &[f64]) -> LossInput {
    LossInput::new(batch, &Tensor::new(log_probs, &Device::Cpu).unwrap()).unwrap()
}

fn token_log_probs(cases: &[Case]) -> Vec<f64> {
    cases.iter().flat_map(|case| &case.log_probs).map(|x| f64::from(*x)).collect()
}

fn value(loss: &dyn Loss, cases: &[Case]) -> LossValue {
    loss.evaluate(&input(&batch(loss, cases), &token_log_probs(cases))).unwrap()
}

fn number(tensor: &Tensor) -> f64 {
    tensor.to_scalar().unwrap()
}

fn metrics(loss: &dyn Loss, cases: &[Case]) -> Vec<(&'static str, f64)> {
    value(loss, cases).metrics.iter().map(|one| (one.metric.name, number(&one.value))).collect()
}

/// The gradient of every token against central differences, except close to a kink of the clip.
fn assert_gradient(loss: &dyn Loss, cases: &[Case], clip: Option<f64>) {
    let (batch, tokens, h) = (batch(loss, cases), token_log_probs(cases), 1e-6);
    let at_point = input(&batch, &tokens);
    let ratios = at_point.log_probs().to_vec1::<f64>().unwrap();
    let at_kink = |sample: usize| {
        let ratio = (ratios[sample] - cases[sample].ref_log_prob).exp();
        clip.is_some_and(|c| ((ratio - 1.0).abs() - c).abs() < 1e-4)
    };
    let value = loss.evaluate(&at_point).unwrap();
    assert!(value.metrics.iter().all(|one| loss.metrics().contains(&one.metric)), "an undeclared metric");
    let gradient = at_point.gradient(&batch, &value.loss, 0.5).unwrap().to_vec1::<f32>().unwrap();
    let sample_of_token =
        cases.iter().enumerate().flat_map(|(sample, case)| std::iter::repeat_n(sample, case.log_probs.len()));
    for (token, sample) in sample_of_token.enumerate() {
        let at = |delta: f64| {
            let mut moved = tokens.clone();
            moved[token] += delta;
            number(&loss.evaluate(&input(&batch, &moved)).unwrap().loss)
        };
        let numeric = 0.5 * (at(h) - at(-h)) / (2.0 * h);
        let analytic = f64::from(gradient[token]);
        assert!(
            at_kink(sample) || (numeric - analytic).abs() <= 1e-5 * (1.0 + numeric.abs()),
            "token {token}: {numeric} against {analytic}"
        );
    }
}

/// REINFORCE on tokens: −Σ w·r·ln p / number of tokens, with the mean entropy bonus of each token's own probability.
struct TokenPolicy {
    bonus: f64,
}

const SURPRISE: Metric = Metric::mean("surprise");

impl Loss for TokenPolicy {
    fn metrics(&self) -> &'static [Metric] {
        &[SURPRISE]
    }

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        let log_probs = input.token_log_probs()?;
        let advantage = input.per_token(|sample| sample.weight * sample.reward)?;
        let surprise = mean(&(log_probs.exp()? * &log_probs)?.neg()?)?;
        let loss = (mean(&(advantage * log_probs)?.neg()?)? - (&surprise * self.bonus)?)?;
        Ok(LossValue { loss, metrics: vec![SURPRISE.of(surprise)] })
    }
}

/// DPO (Rafailov et al. 2023) over neighbours: the first of each two samples is preferred.
struct Dpo {
    beta: f64,
}

const MARGIN: Metric = Metric::mean("margin");
const WORST: Metric = Metric::min("worst_margin");

impl Loss for Dpo {
    fn metrics(&self) -> &'static [Metric] {
        &[MARGIN, WORST]
    }

    fn needs_reference(&self) -> bool {
        true
    }

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        let pairs = input.samples().len() / 2;
        let difference = (input.log_probs() - input.ref_log_probs()?)?.narrow(0, 0, 2 * pairs)?.reshape((pairs, 2))?;
        let margin = ((difference.narrow(1, 0, 1)? - difference.narrow(1, 1, 1)?)? * self.beta)?;
        // −ln σ(m) = ln(1 + e^−m).
        let loss = mean(&(margin.neg()?.exp()? + 1.0)?.log()?)?;
        Ok(LossValue { loss, metrics: vec![MARGIN.of(mean(&margin)?), WORST.of(margin.min_all()?)] })
    }
}

proptest! {
    #[test]
    fn gradients_equal_finite_differences(cases in prop::collection::vec(case(), 1..6)) {
        assert_gradient(&Sft, &cases, None);
        assert_gradient(&SftWithKl { kl: 0.1 }, &cases, None);
        assert_gradient(&OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 }, &cases, Some(0.2));
    }

    #[test]
    fn token_level_and_pairwise_losses_need_only_their_own_code(cases in prop::collection::vec(case(), 2..6)) {
        assert_gradient(&TokenPolicy { bonus: 0.1 }, &cases, None);
        assert_gradient(&Dpo { beta: 0.3 }, &cases, None);
    }

    /// The formulas once more, sample by sample on numbers.
    #[test]
    fn losses_equal_their_formulas(cases in prop::collection::vec(case(), 1..6)) {
        let samples = batch(&Sft, &cases).samples;
        let means = input(&batch(&Sft, &cases), &token_log_probs(&cases)).log_probs().to_vec1::<f64>().unwrap();
        let rows: Vec<(BatchSample, f64)> = samples.into_iter().zip(means).collect();
        let predicted: usize = rows.iter().map(|(s, _)| s.predicted).sum();
        let sft = -rows.iter().map(|(s, l)| l * s.labels as f64).sum::<f64>() / predicted as f64;
        let near = |loss: &dyn Loss, want: f64| {
            let got = number(&value(loss, &cases).loss);
            prop_assert!((got - want).abs() < 1e-12 * (1.0 + want.abs()), "{} against {}", got, want);
            Ok(())
        };
        near(&Sft, sft)?;

        let difference = |s: &BatchSample, l: f64| l - s.ref_log_prob.unwrap();
        let each = rows.iter().map(|(s, l)| s.weight * (0.1 * (l.exp() * difference(s, *l)) - l));
        near(&SftWithKl { kl: 0.1 }, each.sum::<f64>() / rows.len() as f64)?;

        let of = |kind| rows.iter().filter(move |(s, _)| s.kind == kind);
        let count = |kind| of(kind).count().max(1) as f64;
        let objective = |s: &BatchSample, l: f64| {
            let (d, ratio) = (difference(s, l), difference(s, l).exp());
            let advantage = s.reward - 0.2 * d;
            (advantage * ratio).min(advantage * ratio.clamp(0.8, 1.2))
        };
        let policy: f64 = of(SampleKind::Game).map(|(s, l)| s.weight * -objective(s, *l) / count(SampleKind::Game)).sum();
        let sft: f64 = of(SampleKind::Sft).map(|(s, l)| s.weight * -l / count(SampleKind::Sft)).sum();
        near(&OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 }, policy + 0.5 * sft)?;
    }
}

/// Samples in passes of any size, with the divisors of their micro-batch, add up to its loss and to the means of its metrics.
#[test]
fn samples_apart_add_up_to_their_micro_batch() {
    let case = |tokens: usize, reward, kind| Case {
        log_probs: (0..tokens).map(|token| -0.3 - 0.2 * token as f32).collect(),
        unpredicted_label: false,
        ref_log_prob: -0.6,
        reward,
        weight: 1.0 + reward.abs(),
        kind,
    };
    let (game, text) = (SampleKind::Game, SampleKind::Sft);
    let cases = [case(3, 0.5, game), case(1, -1.0, game), case(2, 0.0, text), case(5, 2.0, game), case(4, 0.0, text)];
    let policy = PolicyGradient { ratio: Ratio::None, length: Length::Own, kl: 0.0, sft: 0.3 };
    for loss in [&Sft as &dyn Loss, &SftWithKl { kl: 0.1 }, &OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 }, &policy] {
        let whole = batch(loss, &cases);
        let of_part = |of: std::ops::Range<usize>| {
            let mut part = batch(loss, &cases[of.clone()]);
            part.samples.clone_from_slice(&whole.samples[of.clone()]);
            loss.evaluate(&input(&part, &token_log_probs(&cases[of]))).unwrap().detach()
        };
        let read = |all: &[LossValue]| {
            let all = LossValue::read_all(all).unwrap();
            let metrics: Vec<PassMetric> = all.iter().flat_map(|(_, metrics)| metrics.clone()).collect();
            (all.iter().map(|(loss, _)| loss).sum::<f64>(), MetricValues::of_passes(loss.metrics(), &metrics))
        };
        let (want, want_metrics) = read(&[value(loss, &cases).detach()]);
        let (got, metrics) = read(&[of_part(0..1), of_part(1..4), of_part(4..5)]);
        assert!((got - want).abs() < 1e-12, "{got} against {want}");
        for ((name, got), (_, want)) in metrics.iter().zip(want_metrics.iter()) {
            assert!((got - want).abs() < 1e-12, "{name}: {got} against {want}");
        }
    }
    assert!(TokenPolicy { bonus: 0.1 }.divisor(SampleCounts::default(), game).is_none());
}

#[test]
fn missing_kind_adds_nothing() {
    let loss = OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 };
    let game = Case {
        log_probs: vec![-0.5, -1.5],
        unpredicted_label: false,
        ref_log_prob: -1.0,
        reward: 0.5,
        weight: 2.0,
        kind: SampleKind::Game,
    };
    let names = |cases: &[Case]| metrics(&loss, cases).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let only_games = [game.clone()];
    assert!((number(&value(&loss, &only_games).loss) - -1.0).abs() < 1e-12 && !names(&only_games).contains(&"sft"));
    let only_sft = [Case { kind: SampleKind::Sft, weight: 1.0, ..game }];
    assert!((number(&value(&loss, &only_sft).loss) - 0.5).abs() < 1e-12 && names(&only_sft) == ["sft"]);
    let both = [only_games, only_sft].concat();
    assert_eq!(metrics(&loss, &both).len(), loss.metrics().len());
    assert_eq!(number(&value(&loss, &[]).loss), 0.0);
}

#[test]
fn absent_reference_is_refused() {
    let samples = [Trajectory { row: 0, ids: vec![1, 2], spans: vec![Span::new(1..2, 1.0)] }];
    let batch = Batch::new(&samples, Packing::None).with_divisors(&Sft);
    let input = input(&batch, &[-1.0]);
    assert!(Sft.evaluate(&input).is_ok());
    for loss in [&SftWithKl { kl: 0.1 } as &dyn Loss, &OfflinePo { kl: 0.1, sft: 0.0, clip: 0.2 }] {
        assert!(loss.needs_reference() && matches!(loss.evaluate(&input), Err(crate::Error::NoReference)));
    }
    // Without a coefficient there is no KL term to read it.
    let without = SftWithKl { kl: 0.0 };
    assert!(!without.needs_reference());
    assert_eq!(LossValue::read_all(&[without.evaluate(&input).unwrap()]).unwrap()[0].0, 1.0);
}

#[test]
fn read_all_keeps_names_and_order_of_passes() {
    let game = Case {
        log_probs: vec![-1.0],
        unpredicted_label: false,
        ref_log_prob: -1.0,
        reward: 0.5,
        weight: 1.0,
        kind: SampleKind::Game,
    };
    let loss = OfflinePo { kl: 0.2, sft: 0.5, clip: 0.2 };
    let cases = [vec![Case { kind: SampleKind::Sft, ..game.clone() }], vec![game]];
    let values: Vec<LossValue> = cases.iter().map(|cases| value(&loss, cases).detach()).collect();
    let read = LossValue::read_all(&values).unwrap();
    let of = |pass: usize, name| read[pass].1.iter().find(|one| one.metric.name == name).map(|one| one.value);
    assert_eq!((read[0].0, of(0, "sft"), of(0, "kl")), (0.5, Some(1.0), None));
    assert_eq!((read[1].0, of(1, "sft"), of(1, "policy")), (-0.5, None, Some(-0.5)));
    assert!(LossValue::read_all(&[]).unwrap().is_empty());
}
