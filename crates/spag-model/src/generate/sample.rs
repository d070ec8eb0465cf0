//! One token from one row of logits.

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sampling {
    /// The most likely token; of equals the one with the lowest id.
    Greedy,
    /// A draw from softmax(logits / temperature), restricted to the most likely tokens where asked.
    Random {
        /// Divides the logits; 1.2 in the paper's self-play.
        temperature: f64,
        /// Only the `k` most likely tokens, if given.
        top_k: Option<usize>,
        /// Only the most likely tokens that together reach probability `p`, if given.
        top_p: Option<f64>,
    },
}

impl Sampling {
    /// A draw at `temperature` from all tokens.
    pub fn at_temperature(temperature: f64) -> Self {
        Self::Random { temperature, top_k: None, top_p: None }
    }

    /// Rejects numbers that make no distribution.
    ///
    /// # Errors
    /// [`Error::Generation`] naming the setting.
    pub fn check(&self) -> Result<()> {
        let Self::Random { temperature, top_k, top_p } = self else { return Ok(()) };
        let wrong = |what: String| Err(Error::Generation(what));
        if !(temperature.is_finite() && *temperature > 0.0) {
            return wrong(format!("temperature must be above 0, not {temperature}; use greedy for 0"));
        }
        if *top_k == Some(0) {
            return wrong("top_k must be at least 1".into());
        }
        match top_p {
            Some(p) if !(*p > 0.0 && *p <= 1.0) => wrong(format!("top_p must lie in (0, 1], not {p}")),
            _ => Ok(()),
        }
    }
}

/// Chooses a token. `banned` is never chosen (EOS while fewer than the least number of tokens are out).
pub(crate) fn choose(logits: &[f32], sampling: Sampling, banned: Option<u32>, rng: &mut ChaCha8Rng) -> Result<u32> {
    let allowed = |id: usize| banned.map(|b| b as usize) != Some(id);
    let best = (0..logits.len()).filter(|i| allowed(*i)).fold(None, |best: Option<usize>, i| match best {
        Some(b) if logits[b] >= logits[i] => Some(b),
        _ => Some(i),
    });
    let Some(best) = best else { return Err(Error::Generation("no token may be chosen".into())) };
    if !logits[best].is_finite() {
        return Err(Error::Generation(format!(
            "the model's logits are not finite ({}); are the weights sound?",
            logits[best]
        )));
    }
    let Sampling::Random { temperature, top_k, top_p } = sampling else { return Ok(best as u32) };
    let top = f64::from(logits[best]);
    let weight = |id: usize| ((f64::from(logits[id]) - top) / temperature).exp();
    let mut candidates: Vec<(usize, f64)> = (0..logits.len()).filter(|i| allowed(*i)).map(|i| (i, weight(i))).collect();
    if top_k.is_some() || top_p.is_some() {
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        candidates.truncate(top_k.unwrap_or(usize::MAX));
        if let Some(p) = top_p {
            let total: f64 = candidates.iter().map(|c| c.1).sum();
            let mut reached = 0.0;
            let keep = candidates.iter().position(|c| {
                reached += c.1;
                reached >= p * total
            });
            candidates.truncate(keep.map_or(candidates.len(), |k| k + 1));
        }
    }
    let total: f64 = candidates.iter().map(|c| c.1).sum();
    let mut left = rng.random::<f64>() * total;
    for (id, weight) in &candidates {
        left -= weight;
        if left < 0.0 {
            return Ok(*id as u32);
        }
    }
    // Rounding may leave a sliver at the end: it belongs to the most likely token.
    Ok(best as u32)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn draws(sampling: Sampling, banned: Option<u32>) -> Vec<usize> {
        let logits = [1.0f32, 2.0, 0.0, 2.0];
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut counts = vec![0; 4];
        for _ in 0..20_000 {
            counts[choose(&logits, sampling, banned, &mut rng).unwrap() as usize] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_first_of_equals_and_never_the_banned() {
        assert_eq!(draws(Sampling::Greedy, None), [0, 20_000, 0, 0]);
        assert_eq!(draws(Sampling::Greedy, Some(1)), [0, 0, 0, 20_000]);
    }

    #[test]
    fn draws_follow_the_softmax() {
        let counts = draws(Sampling::at_temperature(0.5), None);
        let weights: Vec<f64> = [1.0f64, 2.0, 0.0, 2.0].iter().map(|l| (l / 0.5).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            let (want, got) = (weight / total, *count as f64 / 20_000.0);
            assert!((want - got).abs() < 0.015, "{want} {got}");
        }
    }

    #[test]
    fn top_k_and_top_p_cut_the_tail() {
        assert_eq!(draws(Sampling::Random { temperature: 1.0, top_k: Some(1), top_p: None }, None), [0, 20_000, 0, 0]);
        let counts = draws(Sampling::Random { temperature: 1.0, top_k: None, top_p: Some(0.5) }, None);
        assert!(counts[0] == 0 && counts[2] == 0 && counts[1] > 0 && counts[3] > 0, "{counts:?}");
    }

    #[test]
    fn unsound_logits_are_an_error() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        assert!(choose(&[f32::NAN, f32::NAN], Sampling::Greedy, None, &mut rng).is_err());
        assert!(Sampling::at_temperature(0.0).check().is_err());
        assert!(Sampling::Random { temperature: 1.0, top_k: None, top_p: Some(1.5) }.check().is_err());
    }
}
