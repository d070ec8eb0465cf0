//! Policy gradients against finite differences, and against their formulas on numbers.

use candle_core::{Device, Tensor};
use proptest::prelude::*;

use super::super::*;
use crate::batch::Batch;
use crate::packing::Packing;
use crate::trajectory::{Span, Trajectory};

const LOW: f64 = 0.2;
const HIGH: f64 = 0.3;
const CAP: f64 = 1.4;

const RATIOS: [Ratio; 4] =
    [Ratio::None, Ratio::Clip { low: LOW, high: HIGH }, Ratio::Truncated { cap: CAP }, Ratio::Masked { cap: CAP }];

/// All divide samples alike.
const ANY: PolicyGradient = PolicyGradient { ratio: Ratio::None, length: Length::Own, kl: 0.0, sft: 0.0 };

/// A token: ln π, ln π − ln π_sampling, and ln π_ref − ln π.
type Token = (f64, f64, f64);

/// An utterance whose last token is its leaf, if it has one.
#[derive(Clone, Debug)]
struct Case {
    tokens: Vec<Token>,
    leaf: bool,
    sampling_known: bool,
    advantage: f64,
    weight: f64,
}

fn case() -> impl Strategy<Value = Case> {
    let token = (-4.0..-0.01f64, -0.8..0.8f64, -1.0..1.0f64);
    let tokens = prop::collection::vec(token, 1..6);
    (tokens, any::<bool>(), any::<bool>(), -2.0..2.0f64, 0.1..3.0f64).prop_map(
        |(tokens, leaf, sampling_known, advantage, weight)| Case { tokens, leaf, sampling_known, advantage, weight },
    )
}

fn batch(cases: &[Case]) -> Batch {
    let trajectory = |case: &Case| {
        let in_sequence = case.tokens.len() - usize::from(case.leaf);
        let numbers = |number: fn(&Token) -> f64| case.tokens.iter().map(|token| number(token) as f32).collect();
        let span = Span {
            leaf: case.leaf.then_some(1),
            weight: case.weight,
            sampling_log_probs: case.sampling_known.then(|| numbers(|(own, apart, _)| own - apart)),
            ref_token_log_probs: Some(numbers(|(own, _, apart)| own + apart)),
            ..Span::new(1..1 + in_sequence, case.advantage)
        };
        Trajectory { row: 0, ids: vec![1; 1 + in_sequence], spans: vec![span] }
    };
    Batch::new(&cases.iter().map(trajectory).collect::<Vec<_>>(), Packing::None).with_divisors(&ANY)
}

fn own(cases: &[Case]) -> Vec<f64> {
    cases.iter().flat_map(|case| case.tokens.iter().map(|token| token.0)).collect()
}

fn input(batch: &Batch, log_probs: &[f64]) -> LossInput {
    LossInput::new(batch, &Tensor::new(log_probs, &Device::Cpu).unwrap()).unwrap()
}

fn gradient(loss: &PolicyGradient, batch: &Batch, log_probs: &[f64]) -> Vec<f32> {
    let input = input(batch, log_probs);
    let value = loss.evaluate(&input).unwrap();
    input.gradient(batch, &value.loss, 1.0).unwrap().to_vec1().unwrap()
}

/// The formula on numbers. `fixed` are the log-probabilities of factors that no gradient flows through; they are ln π itself
/// in the value.
fn formula(loss: &PolicyGradient, batch: &Batch, log_probs: &[f64], fixed: &[f64]) -> f64 {
    let (mut sum, mut token) = (0.0, 0);
    for sample in &batch.samples {
        let length = if let Length::Constant(length) = loss.length { length } else { sample.labels };
        let mut of_sample = 0.0;
        for at in token..token + sample.predicted {
            let (pi, a) = (log_probs[at], sample.reward);
            let sampling = batch.sampling_log_probs[at].map_or(fixed[at], f64::from);
            let (ratio, held) = ((pi - sampling).exp(), (fixed[at] - sampling).exp());
            of_sample -= match loss.ratio {
                Ratio::None => a * pi,
                Ratio::Clip { low, high } => (a * ratio).min(a * ratio.clamp(1.0 - low, 1.0 + high)),
                Ratio::Truncated { cap } => held.min(cap) * a * pi,
                Ratio::Masked { cap } if held < 1.0 / cap || held > cap => 0.0,
                Ratio::Masked { .. } => held * a * pi,
            };
            let apart = f64::from(batch.ref_log_probs[at].unwrap()) - pi;
            of_sample += loss.kl * (apart.exp() - apart - 1.0);
        }
        sum += sample.weight * of_sample / length as f64;
        token += sample.predicted;
    }
    sum / batch.samples.len() as f64
}

fn losses() -> impl Iterator<Item = PolicyGradient> {
    RATIOS.into_iter().flat_map(|ratio| {
        [(Length::Own, 0.0), (Length::Constant(7), 0.3)].map(|(length, kl)| PolicyGradient {
            ratio,
            length,
            kl,
            sft: 0.0,
        })
    })
}

/// Samples of both kinds: the policy's part is that of the games alone, and the other the mean surprisal of the texts.
#[test]
fn general_texts_add_their_mean_surprisal() {
    use spag_rewards::SampleKind;
    let one = |kind, tokens: usize| Trajectory {
        row: 0,
        ids: vec![0; tokens + 1],
        spans: vec![Span { kind, ..Span::new(1..tokens + 1, 2.0) }],
    };
    let (game, text) = (one(SampleKind::Game, 2), one(SampleKind::Sft, 3));
    let log_probs = [-0.5, -1.0, -0.25, -2.0, -3.0];
    let of = |trajectories: &[Trajectory], log_probs: &[f64], sft| {
        let loss = PolicyGradient { ratio: Ratio::None, length: Length::Own, kl: 0.0, sft };
        let batch = Batch::new(trajectories, Packing::None).with_divisors(&ANY);
        let value = loss.evaluate(&input(&batch, log_probs)).unwrap();
        (value.loss.to_scalar::<f64>().unwrap(), gradient(&loss, &batch, log_probs))
    };
    let (games, _) = of(std::slice::from_ref(&game), &log_probs[..2], 0.5);
    assert_eq!(games, 1.5);
    let (both, gradient) = of(&[game, text], &log_probs, 0.5);
    assert!((both - (games + 0.5 * 1.75)).abs() < 1e-12, "{both}");
    let want = [-1.0, -1.0, -0.5 / 3.0, -0.5 / 3.0, -0.5 / 3.0];
    assert!(gradient.iter().zip(want).all(|(got, want)| (f64::from(*got) - want).abs() < 1e-6), "{gradient:?}");
}

proptest! {
    #[test]
    fn loss_and_gradient_equal_their_formulas(cases in prop::collection::vec(case(), 1..5)) {
        let (batch, log_probs, h) = (batch(&cases), own(&cases), 1e-6);
        for loss in losses() {
            let value = loss.evaluate(&input(&batch, &log_probs)).unwrap();
            let want = formula(&loss, &batch, &log_probs, &log_probs);
            let got: f64 = value.loss.to_scalar().unwrap();
            prop_assert!((got - want).abs() < 1e-12 * (1.0 + want.abs()), "{loss:?}: {got} against {want}");
            prop_assert!(value.metrics.iter().all(|one| loss.metrics().contains(&one.metric)));
            for (token, analytic) in gradient(&loss, &batch, &log_probs).into_iter().enumerate() {
                let at = |delta: f64| {
                    let mut moved = log_probs.clone();
                    moved[token] += delta;
                    formula(&loss, &batch, &moved, &log_probs)
                };
                let numeric = (at(h) - at(-h)) / (2.0 * h);
                let ratio = batch.sampling_log_probs[token].map_or(1.0, |x| (log_probs[token] - f64::from(x)).exp());
                let at_kink = [1.0 - LOW, 1.0 + HIGH].iter().any(|kink| (ratio - kink).abs() < 1e-4);
                prop_assert!(
                    at_kink || (numeric - f64::from(analytic)).abs() < 1e-5 * (1.0 + numeric.abs()),
                    "{loss:?}, token {token}: {numeric} against {analytic}"
                );
            }
        }
    }

    /// The first update after sampling.
    #[test]
    fn all_have_the_gradient_of_reinforce_where_the_ratio_is_one(cases in prop::collection::vec(case(), 1..5)) {
        let mut cases = cases;
        for token in cases.iter_mut().flat_map(|case| &mut case.tokens) {
            // Sampling log-probabilities are stored as f32.
            *token = (f64::from(token.0 as f32), 0.0, token.2);
        }
        let (batch, log_probs) = (batch(&cases), own(&cases));
        for (length, kl) in [(Length::Own, 0.0), (Length::Constant(7), 0.3)] {
            let of = |ratio| gradient(&PolicyGradient { ratio, length, kl, sft: 0.0 }, &batch, &log_probs);
            let want = of(Ratio::None);
            for ratio in RATIOS {
                prop_assert_eq!(of(ratio), want.clone(), "{:?}", ratio);
            }
        }
    }
}

proptest! {
    /// What is known of tokens stays with them in a part of the samples.
    #[test]
    fn a_part_of_the_samples_has_the_loss_of_a_batch_of_them(cases in prop::collection::vec(case(), 1..6)) {
        let kept: Vec<Case> = cases.iter().filter(|case| case.advantage > 0.0).cloned().collect();
        let undivided = |cases: &[Case]| {
            let mut batch = batch(cases);
            batch.samples.iter_mut().for_each(|sample| sample.divisor = 1.0);
            input(&batch, &own(cases))
        };
        let part = undivided(&cases).select(|sample| sample.reward > 0.0).unwrap();
        let alone = undivided(&kept);
        for loss in losses() {
            let of = |input| loss.evaluate(input).unwrap().loss.to_scalar::<f64>().unwrap();
            prop_assert_eq!(of(&part), of(&alone));
        }
    }
}

#[test]
fn metrics_of_two_tokens_by_hand() {
    // Ratios of 2 and 1/4, a reference that gives the first token e times the probability.
    let tokens = vec![(-1.0, 2f64.ln(), 1.0), (-3.0, 0.25f64.ln(), 0.0)];
    let cases = [Case { tokens, leaf: true, sampling_known: true, advantage: 1.0, weight: 1.0 }];
    let of = |ratio, name: &str| {
        let loss = PolicyGradient { ratio, length: Length::Own, kl: 0.1, sft: 0.0 };
        let value = loss.evaluate(&input(&batch(&cases), &own(&cases))).unwrap();
        let found = value.metrics.iter().find(|one| one.metric.name == name);
        found.map(|one| one.value.to_scalar::<f64>().unwrap())
    };
    let near = |got: Option<f64>, want: f64| assert!((got.unwrap() - want).abs() < 1e-6, "{got:?} against {want}");
    near(of(Ratio::None, "importance_ratio_mean"), 1.125);
    near(of(Ratio::None, "importance_ratio_min"), 0.25);
    near(of(Ratio::None, "importance_ratio_max"), 2.0);
    near(of(Ratio::None, "entropy"), 2.0);
    near(of(Ratio::None, "policy"), 2.0);
    near(of(Ratio::None, "kl"), (1f64.exp() - 2.0) / 2.0);
    assert_eq!(of(Ratio::None, "clipped_fraction"), None);
    near(of(RATIOS[1], "clipped_fraction"), 1.0);
    near(of(RATIOS[1], "policy"), -(1.0 + HIGH + 0.25) / 2.0);
    near(of(RATIOS[2], "clipped_fraction"), 0.5);
    near(of(RATIOS[2], "policy"), (CAP + 0.25 * 3.0) / 2.0);
    near(of(RATIOS[3], "clipped_fraction"), 1.0);
    near(of(RATIOS[3], "policy"), 0.0);
}

#[test]
fn a_reference_is_needed_only_for_its_penalty() {
    let span = Span { weight: 2.0, ..Span::new(1..2, 0.5) };
    let batch =
        Batch::new(&[Trajectory { row: 0, ids: vec![1, 2], spans: vec![span] }], Packing::None).with_divisors(&ANY);
    let of = |kl| {
        PolicyGradient { ratio: Ratio::None, length: Length::Constant(4), kl, sft: 0.0 }
            .evaluate(&input(&batch, &[-1.0]))
    };
    assert_eq!(of(0.0).unwrap().loss.to_scalar::<f64>().unwrap(), 0.25);
    assert!(matches!(of(0.1), Err(crate::Error::NoReference)));
    let nothing = PolicyGradient { ratio: Ratio::None, length: Length::Own, kl: 0.0, sft: 0.0 };
    assert_eq!(nothing.evaluate(&input(&Batch::default(), &[])).unwrap().loss.to_scalar::<f64>().unwrap(), 0.0);
}
