//! Sampling on the CPU, one row at a time.

use super::{Distribution, SampleError, SampleParams, SampledToken, Sampling, ScoreParams, TokenLogProb};
use crate::simd;

/// Weights are summed in blocks of this many, so that a lookup takes two short searches.
const BLOCK: usize = 64;

/// Samples a token. `weights` is scratch memory.
pub(super) fn sample(
    logits: &[f32],
    params: &SampleParams,
    weights: &mut Vec<f32>,
) -> Result<SampledToken, SampleError> {
    let (top, log_sum) = log_sum_exp(logits)?;
    let chosen = |token: usize, sampling_log_prob: f32| SampledToken {
        token: token as u32,
        model_log_prob: logits[token] - log_sum,
        sampling_log_prob,
    };
    let SampleParams { distribution, uniform, .. } = params;
    let best = most_likely_allowed(logits, top, &distribution.banned).ok_or(SampleError::NoneAllowed)?;
    let Sampling::Random { temperature: _, top_k, top_p } = distribution.sampling else { return Ok(chosen(best, 0.0)) };
    let (top, inverse) = (logits[best], distribution.inverse_temperature());
    if top_k.is_none() && top_p.is_none() {
        let sums = weigh(logits, (top, inverse), &distribution.banned, weights);
        let total: f64 = sums.iter().sum();
        let (block, left) = draw(sums.iter().copied(), uniform * total).unwrap_or((best / BLOCK, 0.0));
        let inside = &weights[block * BLOCK..weights.len().min((block + 1) * BLOCK)];
        let inside = draw(inside.iter().map(|w| f64::from(*w)), left).map(|(index, _)| block * BLOCK + index);
        // Rounding can leave a remainder beyond the last token; it is assigned to the most likely token.
        let token = inside.unwrap_or(best);
        return Ok(chosen(token, (logits[token] - top) * inverse - (total as f32).ln()));
    }
    let likely = Likely::of(logits, (top, inverse), distribution);
    let total: f64 = likely.weights.iter().sum();
    let index = draw(likely.weights.iter().copied(), uniform * total).map_or(0, |(index, _)| index);
    let (token, logit) = likely.tokens[index];
    Ok(chosen(token, (logit - top) * inverse - (total as f32).ln()))
}

/// The most likely allowed token with non-zero probability, if any. `top` is the largest logit.
fn most_likely_allowed(logits: &[f32], top: f32, banned: &[u32]) -> Option<usize> {
    let is_banned = |token: usize| banned.iter().any(|banned| *banned as usize == token);
    let best = logits.iter().position(|logit| *logit == top)?;
    if !is_banned(best) {
        return Some(best);
    }
    let allowed = logits.iter().copied().enumerate().filter(|(token, _)| !is_banned(*token));
    let better = |best: (usize, f32), next: (usize, f32)| if next.1 > best.1 { next } else { best };
    allowed.reduce(better).map(|(token, _)| token).filter(|token| logits[*token].is_finite())
}

/// Fills `weights` with e^((logit − top) · inverse), 0 for banned tokens. Returns the sum of each block.
fn weigh(logits: &[f32], (top, inverse): (f32, f32), banned: &[u32], weights: &mut Vec<f32>) -> Vec<f64> {
    weights.clear();
    weights.extend_from_slice(logits);
    simd::vectorized(
        #[inline(always)]
        || weights.iter_mut().for_each(|w| *w = simd::exp((*w - top) * inverse)),
    );
    for token in banned {
        if let Some(weight) = weights.get_mut(*token as usize) {
            *weight = 0.0;
        }
    }
    simd::vectorized(
        #[inline(always)]
        || weights.chunks(BLOCK).map(|block| f64::from(simd::sum_of(block, |w| w))).collect(),
    )
}

/// The tokens kept by top-k and top-p, sorted by likelihood, with their weights e^((logit − top) · inverse).
struct Likely {
    tokens: Vec<(usize, f32)>,
    weights: Vec<f64>,
}

impl Likely {
    fn of(logits: &[f32], (top, inverse): (f32, f32), distribution: &Distribution) -> Self {
        let (top_k, top_p) = match distribution.sampling {
            Sampling::Greedy => (Some(1), None),
            Sampling::Random { top_k, top_p, .. } => (top_k, top_p),
        };
        let banned = &distribution.banned;
        let is_banned = |token: usize| banned.iter().any(|banned| *banned as usize == token);
        let mut tokens: Vec<(usize, f32)> =
            logits.iter().copied().enumerate().filter(|(token, _)| !is_banned(*token)).collect();
        let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if let Some(k) = top_k.filter(|k| *k < tokens.len()) {
            tokens.select_nth_unstable_by(k, order);
            tokens.truncate(k);
        }
        tokens.sort_unstable_by(order);
        let mut weights: Vec<f64> =
            tokens.iter().map(|(_, logit)| f64::from(simd::exp((logit - top) * inverse))).collect();
        if let Some(p) = top_p {
            let total: f64 = weights.iter().sum();
            let mut reached = 0.0;
            let enough = weights.iter().position(|weight| {
                reached += weight;
                reached >= p * total
            });
            weights.truncate(enough.map_or(weights.len(), |last| last + 1));
        }
        tokens.truncate(weights.len());
        Self { tokens, weights }
    }
}

/// Transforms a row's logits so that their softmax is the distribution: (logit − top) / temperature, and −∞ for excluded tokens,
/// except the target. Returns the log-sum-exp, NaN if logits are not finite. The resulting log-probabilities are bit-identical to
/// those of [`sample`].
pub(super) fn restrict(logits: &mut [f32], distribution: &Distribution, target: usize, weights: &mut Vec<f32>) -> f32 {
    let best = log_sum_exp(logits).ok().and_then(|(top, _)| most_likely_allowed(logits, top, &distribution.banned));
    let Some(best) = best else { return f32::NAN };
    let (top, inverse) = (logits[best], distribution.inverse_temperature());
    let of = |logit: f32| (logit - top) * inverse;
    let of_target = of(logits[target]);
    let total: f64 = match distribution.sampling {
        Sampling::Random { top_k: None, top_p: None, .. } => {
            let sums = weigh(logits, (top, inverse), &distribution.banned, weights);
            logits.iter_mut().for_each(|logit| *logit = of(*logit));
            distribution.banned.iter().for_each(|token| {
                if let Some(logit) = logits.get_mut(*token as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            });
            sums.iter().sum()
        }
        Sampling::Greedy | Sampling::Random { .. } => {
            let likely = Likely::of(logits, (top, inverse), distribution);
            logits.fill(f32::NEG_INFINITY);
            likely.tokens.iter().for_each(|(token, logit)| logits[*token] = of(*logit));
            likely.weights.iter().sum()
        }
    };
    let missing = if logits[target] == f32::NEG_INFINITY { f64::from(simd::exp(of_target)) } else { 0.0 };
    logits[target] = of_target;
    ((total + missing) as f32).ln()
}

/// The largest logit, and the logarithm of the sum of all exponentials.
fn log_sum_exp(logits: &[f32]) -> Result<(f32, f32), SampleError> {
    let (top, sum) = simd::vectorized(
        #[inline(always)]
        || {
            let top = simd::max(logits);
            (top, simd::sum_of(logits, |logit| simd::exp(logit - top)))
        },
    );
    let log_sum = top + sum.ln();
    if log_sum.is_finite() { Ok((top, log_sum)) } else { Err(SampleError::NotFinite) }
}

/// The log-probability of a token, and the most likely tokens.
pub(super) fn score(logits: &[f32], params: &ScoreParams) -> Result<TokenLogProb, SampleError> {
    let (_, log_sum) = log_sum_exp(logits)?;
    let log_prob = |token: u32| logits[token as usize] - log_sum;
    let top = most_likely(logits, params.top).into_iter().map(|token| (token, log_prob(token))).collect();
    Ok(TokenLogProb { token: params.token, log_prob: log_prob(params.token), top })
}

/// The `count` tokens with the largest logits, sorted, ties by id.
fn most_likely(logits: &[f32], count: usize) -> Vec<u32> {
    let mut best: Vec<u32> = Vec::with_capacity(count + 1);
    if count == 0 {
        return best;
    }
    let mut least = f32::NEG_INFINITY;
    for (token, logit) in logits.iter().enumerate() {
        // Few tokens pass this test, and later tokens lose ties.
        if best.len() == count && *logit <= least {
            continue;
        }
        let at = best.partition_point(|other| logits[*other as usize] >= *logit);
        best.insert(at, token as u32);
        best.truncate(count);
        least = best.last().map_or(least, |last| logits[*last as usize]);
    }
    best
}

/// The first index at which the running sum exceeds `target`, and the remainder of `target` there.
fn draw(weights: impl Iterator<Item = f64>, target: f64) -> Option<(usize, f64)> {
    let mut left = target;
    for (index, weight) in weights.enumerate() {
        if left < weight {
            return Some((index, left));
        }
        left -= weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn sample(
        logits: &[f32],
        sampling: Sampling,
        banned: &[u32],
        rng: &mut ChaCha8Rng,
    ) -> Result<SampledToken, SampleError> {
        let uniform = if sampling == Sampling::Greedy { 0.0 } else { rng.random() };
        super::sample(
            logits,
            &SampleParams { distribution: Distribution { sampling, banned: banned.into() }, uniform, adjustment: None },
            &mut Vec::new(),
        )
    }

    fn random(temperature: f64, top_k: Option<usize>, top_p: Option<f64>) -> Sampling {
        Sampling::Random { temperature, top_k, top_p }
    }

    fn draws(draw: Sampling, banned: Option<u32>) -> Vec<usize> {
        let logits = [1.0f32, 2.0, 0.0, 2.0];
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut counts = vec![0; 4];
        for _ in 0..20_000 {
            let banned = banned.as_slice();
            counts[sample(&logits, draw, banned, &mut rng).unwrap().token as usize] += 1;
        }
        counts
    }

    #[test]
    fn greedy_breaks_ties_by_id_and_skips_banned_tokens() {
        assert_eq!(draws(Sampling::Greedy, None), [0, 20_000, 0, 0]);
        assert_eq!(draws(Sampling::Greedy, Some(1)), [0, 0, 0, 20_000]);
    }

    #[test]
    fn samples_follow_the_softmax() {
        let counts = draws(random(0.5, None, None), None);
        let weights: Vec<f64> = [1.0f64, 2.0, 0.0, 2.0].iter().map(|l| (l / 0.5).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            let (want, got) = (weight / total, *count as f64 / 20_000.0);
            assert!((want - got).abs() < 0.015, "{want} {got}");
        }
    }

    #[test]
    fn top_k_and_top_p_cut_the_tail() {
        assert_eq!(draws(random(1.0, Some(1), None), None), [0, 20_000, 0, 0]);
        let counts = draws(random(1.0, None, Some(0.5)), None);
        assert!(counts[0] == 0 && counts[2] == 0 && counts[1] > 0 && counts[3] > 0, "{counts:?}");
    }

    #[test]
    fn non_finite_logits_are_rejected() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        for logits in [[f32::NAN; 2], [f32::INFINITY, 0.0], [f32::NEG_INFINITY; 2]] {
            assert!(sample(&logits, Sampling::Greedy, &[], &mut rng).is_err(), "{logits:?}");
        }
        assert!(sample(&[0.0, 1.0], Sampling::Greedy, &[0, 1], &mut rng).is_err());
    }

    /// Compares every restriction with its definition in f64, over a vocabulary of several blocks.
    #[test]
    fn log_probabilities_match_their_distributions() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let logits: Vec<f32> = (0..301).map(|_| rng.random::<f32>() * 8.0 - 4.0).collect();
        let log_softmax =
            |logits: &[f64], token: usize| logits[token] - logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
        let plain: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
        let mut order: Vec<usize> = (0..logits.len()).filter(|id| *id != 17).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        let scaled: Vec<f64> =
            plain.iter().enumerate().map(|(id, l)| if id == 17 { f64::NEG_INFINITY } else { l / 0.7 }).collect();
        for (top_k, top_p) in
            [(None, None), (Some(20), None), (None, Some(0.8)), (Some(50), Some(0.5)), (Some(999), None)]
        {
            let mut kept: Vec<usize> = order[..top_k.unwrap_or(order.len()).min(order.len())].to_vec();
            if let Some(p) = top_p {
                let total: f64 = kept.iter().map(|id| scaled[*id].exp()).sum();
                let mut reached = 0.0;
                let last = kept.iter().position(|id| {
                    reached += scaled[*id].exp() / total;
                    reached >= p
                });
                kept.truncate(last.unwrap() + 1);
            }
            let restricted: Vec<f64> =
                (0..logits.len()).map(|id| if kept.contains(&id) { scaled[id] } else { f64::NEG_INFINITY }).collect();
            let draw = random(0.7, top_k, top_p);
            for _ in 0..200 {
                let choice = sample(&logits, draw, &[17], &mut rng).unwrap();
                let token = choice.token as usize;
                assert!(kept.contains(&token), "{token} under {draw:?}");
                assert!((f64::from(choice.model_log_prob) - log_softmax(&plain, token)).abs() < 1e-5);
                assert!((f64::from(choice.sampling_log_prob) - log_softmax(&restricted, token)).abs() < 1e-5);
            }
        }
        let greedy = sample(&logits, Sampling::Greedy, &[], &mut rng).unwrap();
        assert_eq!(greedy.sampling_log_prob, 0.0);
    }
}
