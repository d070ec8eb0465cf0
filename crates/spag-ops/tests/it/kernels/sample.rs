use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_ops::sample::{
    Adjustment, Distribution, LogitEdit, MAX_TOP, SampleError, SampleParams, SampledToken, Sampling, ScoreParams,
    TokenLogProb, TokenSet, sample, score,
};

use super::random::Random;

/// Tolerances of f32 sums of exponentials: for a uniform number outside the token's interval, and for
/// log-probabilities compared with f64. Kernels compute in f32 for every number format.
const SLACK: f64 = 2e-6;
const LOG_PROB_TOLERANCE: f64 = 2e-5;

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
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
        let mut params = vec![SampleParams::default(), greedy(&[0, size as u32 / 2])];
        for (at, (temperature, top_k, top_p)) in draws.into_iter().enumerate() {
            let uniform = random.below(1 << 30) as f64 / f64::from(1 << 30);
            let banned = if at % 2 == 0 { Vec::new() } else { vec![1, size as u32 - 1, 3] };
            let sampling = Sampling::Random { temperature, top_k, top_p };
            let distribution = Distribution { sampling, banned: banned.into() };
            params.push(SampleParams { distribution, uniform, adjustment: None });
        }
        if size == 1 {
            params.iter_mut().for_each(|row| row.distribution.banned = Default::default());
        }
        // Peaked and flat distributions; bf16 causes many ties.
        for sharpness in [8.0, 0.02] {
            let logits = (random.tensor(&[params.len(), size]).unwrap() * sharpness).unwrap();
            let logits = logits.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
            compare(place, &logits, &params);
            check_scores(place, &logits, &mut random);
        }
    }
    adjusted(place, &mut random);
    extreme_uniforms(place, &mut random);
    non_finite(place);
}

fn greedy(banned: &[u32]) -> SampleParams {
    let distribution = Distribution { banned: banned.into(), ..Distribution::default() };
    SampleParams { distribution, ..SampleParams::default() }
}

fn compare(place: &Place, logits: &Tensor, params: &[SampleParams]) {
    let want = sample(logits, params).unwrap();
    let rows = logits.to_vec2::<f32>().unwrap();
    for dtype in [DType::F32, DType::BF16] {
        let here = place.put(logits, dtype).unwrap();
        let got = place.run(|| sample(&here, params)).unwrap();
        for (((got, want), logits), row) in got.iter().zip(&want).zip(&rows).zip(params) {
            let what = format!("{dtype:?}, {} tokens, {row:?}: {got:?}, not {want:?}", logits.len());
            let (Ok(got), Ok(want)) = (got, want) else { panic!("{what}") };
            check_sample(logits, row, got, &what);
            // The CPU assigns the remainder beyond the last token to the most likely one; kernels have no remainder.
            let remainder = row.distribution.sampling != Sampling::Greedy && row.uniform > 1.0 - SLACK;
            if !remainder {
                check_sample(logits, row, want, &what);
            }
        }
    }
}

/// Checks against the definition in f64: the token's interval contains the number, and both log-probabilities are right.
fn check_sample(logits: &[f32], row: &SampleParams, choice: &SampledToken, what: &str) {
    let logit = |token: usize| f64::from(logits[token]);
    let all: f64 = (0..logits.len()).map(|token| logit(token).exp()).sum();
    let token = choice.token as usize;
    let close = |got: f32, want: f64| assert!((f64::from(got) - want).abs() < LOG_PROB_TOLERANCE, "{want}; {what}");
    close(choice.model_log_prob, logit(token) - all.ln());
    let mut order: Vec<usize> =
        (0..logits.len()).filter(|token| !row.distribution.banned.contains(&(*token as u32))).collect();
    let by_likelihood = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
    let Sampling::Random { temperature, top_k, top_p } = row.distribution.sampling else {
        let best = order.into_iter().min_by(by_likelihood);
        assert_eq!((Some(token), choice.sampling_log_prob), (best, 0.0), "{what}");
        return;
    };
    let mass = |token: usize| (logit(token) / temperature).exp();
    if top_k.is_some() || top_p.is_some() {
        order.sort_by(by_likelihood);
        order.truncate(top_k.unwrap_or(logits.len()));
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
    assert!(part.contains(&row.uniform), "{} outside {part:?}; {what}", row.uniform);
    close(choice.sampling_log_prob, (mass(token) / total).ln());
}

/// Scores of some rows, some of them twice, compared with f64 and with the sampler's own log-probabilities.
fn check_scores(place: &Place, logits: &Tensor, random: &mut Random) {
    let (rows, size) = logits.dims2().unwrap();
    let params = [0, 1, 3, MAX_TOP, 7].map(|top| {
        let (row, token) = (random.below(rows), random.below(size) as u32);
        ScoreParams { row, token, top }
    });
    let want = score(logits, &params).unwrap();
    let values = logits.to_vec2::<f32>().unwrap();
    for dtype in [DType::F32, DType::BF16] {
        let here = place.put(logits, dtype).unwrap();
        let got = place.run(|| score(&here, &params)).unwrap();
        for ((got, want), params) in got.iter().zip(&want).zip(&params) {
            let what = format!("{dtype:?}, {size} tokens, {params:?}: {got:?}, not {want:?}");
            let (Ok(got), Ok(want)) = (got, want) else { panic!("{what}") };
            let row = &values[params.row];
            let all: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
            let close = |token: u32, log_prob: f32| {
                let want = f64::from(row[token as usize]) - all.ln();
                assert!((f64::from(log_prob) - want).abs() < LOG_PROB_TOLERANCE, "{what}");
            };
            let tokens = |scored: &TokenLogProb| scored.top.iter().map(|(token, _)| *token).collect::<Vec<_>>();
            assert_eq!((got.token, tokens(got)), (params.token, tokens(want)), "{what}");
            assert_eq!(got.top.len(), params.top.min(size), "{what}");
            close(got.token, got.log_prob);
            got.top.iter().for_each(|(token, log_prob)| close(*token, *log_prob));
        }
        // The likeliest token's score is bit-identical to that of a greedy sample.
        let greedy = place.run(|| sample(&here, &vec![SampleParams::default(); rows])).unwrap();
        for (row, choice) in greedy.into_iter().enumerate() {
            let choice = choice.unwrap();
            let params = [ScoreParams { row, token: choice.token, top: 1 }];
            let scored = place.run(|| score(&here, &params)).unwrap().remove(0).unwrap();
            assert_eq!(scored.top, [(choice.token, choice.model_log_prob)], "{dtype:?}");
            assert_eq!(scored.log_prob.to_bits(), choice.model_log_prob.to_bits(), "{dtype:?}");
        }
    }
}

/// Rows with and without adjustments: equal to sampling from manually changed logits, except for the model's log-probability.
fn adjusted(place: &Place, random: &mut Random) {
    for size in [5usize, 64, 1003] {
        let logits = (random.tensor(&[8, size]).unwrap() * 3.0).unwrap().to_dtype(DType::BF16).unwrap();
        let logits = logits.to_dtype(DType::F32).unwrap();
        let edits = |every: usize| -> Vec<LogitEdit> {
            let edit = |token: usize| match token % 4 {
                0 => LogitEdit { bias: f32::NEG_INFINITY, ..LogitEdit::of(token as u32) },
                1 => LogitEdit { bias: 2.5, repetition: 1.5, ..LogitEdit::of(token as u32) },
                2 => LogitEdit { repetition: 0.5, penalty: -1.0, ..LogitEdit::of(token as u32) },
                _ => LogitEdit { penalty: 3.0, ..LogitEdit::of(token as u32) },
            };
            (0..size).step_by(every).map(edit).collect()
        };
        let odd = TokenSet::of_words(vec![0xaaaa_aaaa_u32; size.div_ceil(64)]);
        let of = |allowed, edits, min_p| Some(Box::new(Adjustment { allowed, edits, min_p }));
        let adjustments = [
            None,
            of(None, edits(1), 0.0),
            of(Some(odd.clone()), Vec::new(), 0.0),
            of(None, Vec::new(), 0.3),
            None,
            of(Some(odd), edits(3), 0.05),
            of(None, edits(2), 1.0),
            of(Some(TokenSet::of_words(Vec::new())), Vec::new(), 0.0),
        ];
        let row = |(at, adjustment): (usize, Option<Box<Adjustment>>)| {
            let sampling = if at % 3 == 1 { Sampling::Greedy } else { Sampling::random(0.8, 40 * (at % 2), None) };
            let distribution = Distribution { sampling, banned: [3].into() };
            SampleParams { distribution, uniform: 0.1 * at as f64, adjustment }
        };
        let params: Vec<SampleParams> = adjustments.into_iter().enumerate().map(row).collect();
        let rows = logits.to_vec2::<f32>().unwrap();
        let cpu = sample(&logits, &params).unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let here = place.put(&logits, dtype).unwrap();
            let kernels = place.run(|| sample(&here, &params)).unwrap();
            for (at, row) in params.iter().enumerate() {
                for drawn in [&cpu[at], &kernels[at]] {
                    let what = format!("{dtype:?}, {size} tokens, {row:?}: {drawn:?}");
                    if at == 7 {
                        assert_eq!(*drawn, Err(SampleError::NoneAllowed), "{what}");
                        continue;
                    }
                    let mut drawn = drawn.unwrap_or_else(|error| panic!("{error}: {what}"));
                    let log_prob = |logits: &[f32]| {
                        let all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
                        f64::from(logits[drawn.token as usize]) - all.ln()
                    };
                    let changed = by_hand(&rows[at], row);
                    let (model, of_changed) = (log_prob(&rows[at]), log_prob(&changed));
                    assert!((f64::from(drawn.model_log_prob) - model).abs() < LOG_PROB_TOLERANCE, "{model}; {what}");
                    drawn.model_log_prob = of_changed as f32;
                    check_sample(&changed, row, &drawn, &what);
                }
            }
        }
    }
}

/// Applies a row's adjustment by its definition.
fn by_hand(logits: &[f32], row: &SampleParams) -> Vec<f32> {
    let Some(Adjustment { allowed, edits, min_p }) = row.adjustment.as_deref() else { return logits.to_vec() };
    let mut changed = logits.to_vec();
    for (token, logit) in changed.iter_mut().enumerate() {
        if allowed.as_ref().is_some_and(|allowed| !allowed.contains(token as u32)) {
            *logit = f32::NEG_INFINITY;
        }
    }
    for LogitEdit { token, bias, repetition, penalty } in edits {
        let biased = changed[*token as usize] + bias;
        changed[*token as usize] = if biased > 0.0 { biased / repetition } else { biased * repetition } - penalty;
    }
    let temperature = match row.distribution.sampling {
        Sampling::Greedy => 1.0,
        Sampling::Random { temperature, .. } => temperature,
    };
    let weight = |logit: f32| (f64::from(logit) / temperature).exp();
    let allowed = (0..changed.len()).filter(|token| !row.distribution.banned.contains(&(*token as u32)));
    let most = allowed.map(|token| weight(changed[token])).fold(0.0, f64::max);
    // A min-p of 1 keeps only the likeliest tokens, in spite of rounding.
    let least = min_p * most * (1.0 - 1e-7);
    changed.into_iter().map(|logit| if weight(logit) < least { f32::NEG_INFINITY } else { logit }).collect()
}

/// The smallest and the largest uniform number.
fn extreme_uniforms(place: &Place, random: &mut Random) {
    let logits = (random.tensor(&[6, 700]).unwrap() * 4.0).unwrap();
    let restricted = [(None, None), (Some(9), None), (None, Some(0.9))];
    let ends = [0.0, 1.0 - f64::EPSILON / 2.0];
    let params: Vec<SampleParams> = restricted
        .iter()
        .flat_map(|(top_k, top_p)| {
            let sampling = Sampling::Random { temperature: 1.0, top_k: *top_k, top_p: *top_p };
            let distribution = Distribution { sampling, banned: [699].into() };
            ends.map(|uniform| SampleParams { distribution: distribution.clone(), uniform, adjustment: None })
        })
        .collect();
    compare(place, &logits, &params);
}

fn non_finite(place: &Place) {
    let (nan, infinite) = (f32::NAN, f32::INFINITY);
    let rows = [[0.0, nan, 1.0], [infinite, 0.0, 0.0], [-infinite; 3], [0.0, 1.0, 2.0], [1.0, -infinite, -infinite]];
    let logits = Tensor::new(&rows, &Device::Cpu).unwrap();
    let params = [&[][..], &[], &[], &[0, 1, 2], &[0]].map(greedy);
    let here = place.put(&logits, DType::F32).unwrap();
    let got = place.run(|| sample(&here, &params)).unwrap();
    assert_eq!(got, sample(&logits, &params).unwrap());
    let params: Vec<ScoreParams> = (0..5).map(|row| ScoreParams { row, token: 0, top: 2 }).collect();
    let scored = place.run(|| score(&here, &params)).unwrap();
    for (row, scored) in scored.iter().enumerate() {
        assert_eq!(scored.is_err(), row < 3, "row {row}: {scored:?}");
    }
    let infinite_last = scored[4].as_ref().map(|scored| scored.top.clone());
    assert_eq!(infinite_last, Ok(vec![(0, 0.0), (1, -infinite)]));
    let refused = [
        SampleError::NotFinite,
        SampleError::NotFinite,
        SampleError::NotFinite,
        SampleError::NoneAllowed,
        SampleError::NoneAllowed,
    ];
    assert_eq!(got, refused.map(Err));
}
