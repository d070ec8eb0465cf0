use candle_core::{DType, Device, Tensor};
use spag_model::ops::sample::{Ask, Choice, Draw, Refusal, choose};

use crate::Place;
use crate::random::Random;

/// How far a uniform number may lie outside a token's part of the distribution, and log-probabilities from those in
/// f64: sums of f32 exponentials. Whatever the number format, logits are read as they are and computed with in f32.
const SLACK: f64 = 2e-6;
const LOG_PROB_TOLERANCE: f64 = 2e-5;

pub(super) fn check(place: &Place) {
    let mut random = Random::new(11);
    for size in [1, 7, 33, 512, 1000, 5003] {
        let draws = [
            (1.0, None, None),
            (0.7, None, None),
            (1.0, Some(1), None),
            (1.2, Some(5), None),
            (1.0, Some(600), None),
            (1.0, None, Some(0.5)),
            (0.8, None, Some(0.98)),
            (1.5, Some(300), Some(0.9)),
        ];
        let mut asks = vec![Ask::default(), Ask { draw: Draw::Greedy, banned: vec![0, size as u32 / 2] }];
        for (at, (temperature, top_k, top_p)) in draws.into_iter().enumerate() {
            let uniform = random.below(1 << 30) as f64 / f64::from(1 << 30);
            let banned = if at % 2 == 0 { Vec::new() } else { vec![1, size as u32 - 1, 3] };
            asks.push(Ask { draw: Draw::Random { temperature, top_k, top_p, uniform }, banned });
        }
        if size == 1 {
            asks.iter_mut().for_each(|ask| ask.banned.clear());
        }
        // Few tokens that count, and nearly all of them; the number format leaves many equals.
        for sharpness in [8.0, 0.02] {
            let logits = (random.tensor(&[asks.len(), size]).unwrap() * sharpness).unwrap();
            let logits = logits.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
            compare(place, &logits, &asks);
        }
    }
    both_ends(place, &mut random);
    unsound(place);
}

fn compare(place: &Place, logits: &Tensor, asks: &[Ask]) {
    let want = choose(logits, asks).unwrap();
    let rows = logits.to_vec2::<f32>().unwrap();
    for dtype in [DType::F32, DType::BF16] {
        let here = place.put(logits, dtype).unwrap();
        let got = place.run(|| choose(&here, asks)).unwrap();
        for (((got, want), row), ask) in got.iter().zip(&want).zip(&rows).zip(asks) {
            let what = format!("{dtype:?}, {} tokens, {ask:?}: {got:?}, not {want:?}", row.len());
            let (Ok(got), Ok(want)) = (got, want) else { panic!("{what}") };
            fits(row, ask, got, &what);
            // What rounding leaves beyond the last token the CPU gives to the most likely one; kernels leave nothing.
            let sliver = matches!(ask.draw, Draw::Random { uniform, .. } if uniform > 1.0 - SLACK);
            if !sliver {
                fits(row, ask, want, &what);
            }
        }
    }
}

/// The definition, in f64: the token's part of the distribution holds the number, and both log-probabilities are right.
fn fits(row: &[f32], ask: &Ask, choice: &Choice, what: &str) {
    let logit = |token: usize| f64::from(row[token]);
    let all: f64 = (0..row.len()).map(|token| logit(token).exp()).sum();
    let token = choice.token as usize;
    let close = |got: f32, want: f64| assert!((f64::from(got) - want).abs() < LOG_PROB_TOLERANCE, "{want}; {what}");
    close(choice.model_log_prob, logit(token) - all.ln());
    let mut order: Vec<usize> = (0..row.len()).filter(|token| !ask.banned.contains(&(*token as u32))).collect();
    let by_likelihood = |a: &usize, b: &usize| row[*b].total_cmp(&row[*a]).then(a.cmp(b));
    let Draw::Random { temperature, top_k, top_p, uniform } = ask.draw else {
        let best = order.into_iter().min_by(by_likelihood);
        assert_eq!((Some(token), choice.sampling_log_prob), (best, 0.0), "{what}");
        return;
    };
    let mass = |token: usize| (logit(token) / temperature).exp();
    if top_k.is_some() || top_p.is_some() {
        order.sort_by(by_likelihood);
        order.truncate(top_k.unwrap_or(row.len()));
        let total: f64 = order.iter().map(|token| mass(*token)).sum();
        let mut reached = 0.0;
        let enough = order.iter().position(|token| {
            reached += mass(*token);
            reached >= top_p.unwrap_or(2.0) * total
        });
        order.truncate(enough.map_or(order.len(), |last| last + 1));
    }
    let total: f64 = order.iter().map(|token| mass(*token)).sum();
    let before: f64 = order.iter().take_while(|other| **other != token).map(|token| mass(*token)).sum();
    assert!(order.contains(&token), "{what}");
    let part = before / total - SLACK..(before + mass(token)) / total + SLACK;
    assert!(part.contains(&uniform), "{uniform} outside {part:?}; {what}");
    close(choice.sampling_log_prob, (mass(token) / total).ln());
}

/// The smallest and the largest number that a draw may bring.
fn both_ends(place: &Place, random: &mut Random) {
    let logits = (random.tensor(&[6, 700]).unwrap() * 4.0).unwrap();
    let restricted = [(None, None), (Some(9), None), (None, Some(0.9))];
    let ends = [0.0, 1.0 - f64::EPSILON / 2.0];
    let asks: Vec<Ask> = restricted
        .iter()
        .flat_map(|(top_k, top_p)| {
            ends.map(|uniform| Draw::Random { temperature: 1.0, top_k: *top_k, top_p: *top_p, uniform })
        })
        .map(|draw| Ask { draw, banned: vec![699] })
        .collect();
    compare(place, &logits, &asks);
}

fn unsound(place: &Place) {
    let (nan, infinite) = (f32::NAN, f32::INFINITY);
    let rows = [[0.0, nan, 1.0], [infinite, 0.0, 0.0], [-infinite; 3], [0.0, 1.0, 2.0], [1.0, -infinite, -infinite]];
    let logits = Tensor::new(&rows, &Device::Cpu).unwrap();
    let asks = [vec![], vec![], vec![], vec![0, 1, 2], vec![0]].map(|banned| Ask { draw: Draw::Greedy, banned });
    let here = place.put(&logits, DType::F32).unwrap();
    let got = place.run(|| choose(&here, &asks)).unwrap();
    assert_eq!(got, choose(&logits, &asks).unwrap());
    let refused =
        [Refusal::Unsound, Refusal::Unsound, Refusal::Unsound, Refusal::NothingAllowed, Refusal::NothingAllowed];
    assert_eq!(got, refused.map(Err));
}
