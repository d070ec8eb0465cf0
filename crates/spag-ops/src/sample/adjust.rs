//! Logit processors applied before sampling: biases, penalties, grammar masks, min-p.

use std::sync::Arc;

use candle_core::{Result, Tensor, bail};

use super::{Distribution, Drawn, RowParams, SampleError, SampleParams, SampledToken, ScoreParams, device, row};
use crate::kernels::Kernels;

/// Changes to a row of logits, in this order: tokens outside of `allowed` become −∞, single tokens are edited, and unlikely tokens
/// become −∞. Then the row's [`Distribution`] applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjustment {
    /// Tokens that may be sampled; all if `None`.
    pub allowed: Option<TokenSet>,
    /// Edits of single tokens, sorted by token, each at most once.
    pub edits: Vec<LogitEdit>,
    /// Excludes tokens whose probability at the row's temperature is below this fraction of the likeliest token's; in [0, 1], 0
    /// disables it. Applied before top-k and top-p, as in vLLM.
    pub min_p: f64,
}

/// An edit of one logit `l`, as in vLLM and OpenAI: `r(l + bias) − penalty`, where `r(x)` is `x / repetition` if x is positive, else `x
/// · repetition`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogitEdit {
    /// The token.
    pub token: u32,
    /// Added first; −∞ bans the token.
    pub bias: f32,
    /// The repetition penalty, above 0; 1 has no effect.
    pub repetition: f32,
    /// Subtracted last: the frequency penalty times the token's count, plus the presence penalty.
    pub penalty: f32,
}

impl LogitEdit {
    /// An edit without effect.
    pub fn of(token: u32) -> Self {
        Self { token, bias: 0.0, repetition: 1.0, penalty: 0.0 }
    }

    fn apply(&self, logit: f32) -> f32 {
        let biased = logit + self.bias;
        let repeated = if biased > 0.0 { biased / self.repetition } else { biased * self.repetition };
        repeated - self.penalty
    }
}

/// A set of tokens, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSet(Arc<[u32]>);

impl TokenSet {
    /// The set as words of 32 tokens each, lowest bit first. Tokens beyond the words are excluded.
    pub fn of_words(words: impl Into<Arc<[u32]>>) -> Self {
        Self(words.into())
    }

    /// Whether a token is in the set.
    pub fn contains(&self, token: u32) -> bool {
        self.0.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// The words.
    pub(super) fn words(&self) -> &[u32] {
        &self.0
    }
}

impl Adjustment {
    /// Whether it has no effect.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_none() && self.edits.is_empty() && self.min_p == 0.0
    }

    /// The min-p threshold as a distance below the largest logit; ∞ without min-p.
    pub(super) fn reach(&self, distribution: &Distribution) -> f32 {
        match self.min_p {
            0.0 => f32::INFINITY,
            min_p => (-min_p.ln()) as f32 / distribution.inverse_temperature(),
        }
    }

    /// Checks the adjustment against a row of `size` logits.
    pub(super) fn check(&self, size: usize) -> Result<()> {
        if !(0.0..=1.0).contains(&self.min_p) {
            bail!("sampling: min_p {} is not in [0, 1]", self.min_p);
        }
        let is_sorted = self.edits.is_sorted_by(|a, b| a.token < b.token);
        let is_sound = |edit: &LogitEdit| {
            let numbers = [edit.repetition, edit.penalty];
            let bias = edit.bias.is_finite() || edit.bias == f32::NEG_INFINITY;
            bias && numbers.iter().all(|x| x.is_finite()) && edit.repetition > 0.0 && (edit.token as usize) < size
        };
        match self.edits.iter().find(|edit| !is_sound(edit)) {
            Some(edit) => bail!("sampling: {edit:?} cannot be applied to {size} logits"),
            None if !is_sorted => bail!("sampling: edits are not by ascending token"),
            None => Ok(()),
        }
    }

    /// Applies the adjustment to a row.
    pub(super) fn apply(&self, logits: &mut [f32], distribution: &Distribution) {
        if let Some(allowed) = &self.allowed {
            let tokens = logits.iter_mut().zip(0..);
            tokens.filter(|(_, token)| !allowed.contains(*token)).for_each(|(logit, _)| *logit = f32::NEG_INFINITY);
        }
        for edit in &self.edits {
            if let Some(logit) = logits.get_mut(edit.token as usize) {
                *logit = edit.apply(*logit);
            }
        }
        if self.min_p > 0.0 {
            let banned = |token: usize| distribution.banned.iter().any(|banned| *banned as usize == token);
            let allowed = logits.iter().enumerate().filter(|(token, _)| !banned(*token));
            let top = allowed.map(|(_, logit)| *logit).fold(f32::NEG_INFINITY, f32::max);
            let reach = self.reach(distribution);
            logits.iter_mut().filter(|logit| top - **logit > reach).for_each(|logit| *logit = f32::NEG_INFINITY);
        }
    }
}

/// Samples from an adjusted copy of a row.
pub(super) fn sample(logits: &[f32], params: &SampleParams, adjustment: &Adjustment, weights: &mut Vec<f32>) -> Drawn {
    let mut changed = logits.to_vec();
    adjustment.apply(&mut changed, &params.distribution);
    let unchanged = |token| row::score(logits, &ScoreParams { row: 0, token, top: 0 });
    match row::sample(&changed, params, weights) {
        Ok(drawn) => Ok(SampledToken { model_log_prob: unchanged(drawn.token)?.log_prob, ..drawn }),
        // The logits were finite and are all −∞ now.
        Err(_) => unchanged(0).and(Err(SampleError::NoneAllowed)),
    }
}

/// Samples with kernels: rows with adjustments from adjusted copies, the others directly.
pub(super) fn sample_on_device(kernels: &dyn Kernels, logits: &Tensor, params: &[SampleParams]) -> Result<Vec<Drawn>> {
    let (adjusted, plain): (Vec<RowParams<'_>>, Vec<_>) =
        params.iter().enumerate().partition(|(_, params)| params.adjustment.is_some());
    let drawn = device::sample(kernels, logits, &plain)?;
    if adjusted.is_empty() {
        return Ok(drawn);
    }
    let changed = device::adjust(kernels, logits, &adjusted)?;
    let copies: Vec<RowParams<'_>> = adjusted.iter().enumerate().map(|(copy, (_, params))| (copy, *params)).collect();
    let of_copies = device::sample(kernels, &changed, &copies)?;
    let token = |drawn: &Drawn| drawn.map_or(0, |drawn| drawn.token);
    let scored: Vec<ScoreParams> = adjusted
        .iter()
        .zip(&of_copies)
        .map(|((row, _), drawn)| ScoreParams { row: *row, token: token(drawn), top: 0 })
        .collect();
    let scored = device::score(kernels, logits, &scored)?;
    let of_adjusted = of_copies.into_iter().zip(scored).map(|(drawn, scored)| match (scored, drawn) {
        (Err(error), _) => Err(error),
        (Ok(_), Err(_)) => Err(SampleError::NoneAllowed),
        (Ok(scored), Ok(drawn)) => Ok(SampledToken { model_log_prob: scored.log_prob, ..drawn }),
    });
    let (mut drawn, mut of_adjusted) = (drawn.into_iter(), of_adjusted);
    let of_row = |params: &SampleParams| match params.adjustment {
        Some(_) => of_adjusted.next(),
        None => drawn.next(),
    };
    Ok(params.iter().filter_map(of_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sampling;

    fn changed(logits: &[f32], adjustment: &Adjustment, temperature: f64) -> Vec<f32> {
        let mut logits = logits.to_vec();
        let sampling = Sampling::at_temperature(temperature);
        adjustment.apply(&mut logits, &Distribution { sampling, banned: [3].into() });
        logits
    }

    #[test]
    fn bias_repetition_and_penalties_apply_in_this_order() {
        let edit = |token, bias| LogitEdit { token, bias, repetition: 2.0, penalty: 0.5 };
        let adjustment = Adjustment { edits: vec![edit(0, 1.0), edit(1, -3.0)], ..Adjustment::default() };
        assert_eq!(changed(&[1.0, 1.0, 1.0, 1.0], &adjustment, 1.0), [0.5, -4.5, 1.0, 1.0]);
        assert_eq!(LogitEdit::of(3).apply(-1.25), -1.25);
    }

    #[test]
    fn min_p_is_a_share_of_the_likeliest_allowed_token_at_the_temperature() {
        // The banned token does not count as the likeliest. e^−0.6 = 0.549, e^−0.8 = 0.449.
        let adjustment = Adjustment { min_p: 0.5, ..Adjustment::default() };
        let (gone, logits) = (f32::NEG_INFINITY, [0.0, -0.6, -0.8, 9.0]);
        assert_eq!(changed(&logits, &adjustment, 1.0), [0.0, -0.6, gone, 9.0]);
        assert_eq!(changed(&logits, &adjustment, 2.0), logits);
        assert_eq!(changed(&logits, &adjustment, 0.5), [0.0, gone, gone, 9.0]);
    }

    #[test]
    fn only_allowed_tokens_stay() {
        let allowed = Some(TokenSet::of_words(vec![0b110]));
        let adjustment = Adjustment { allowed, ..Adjustment::default() };
        let gone = f32::NEG_INFINITY;
        assert_eq!(changed(&[1.0, 2.0, 3.0, 4.0], &adjustment, 1.0), [gone, 2.0, 3.0, gone]);
        let many = TokenSet::of_words(vec![0, 1 << 31]);
        assert_eq!([62, 63, 64].map(|token| many.contains(token)), [false, true, false]);
    }

    #[test]
    fn unsound_adjustments_are_rejected() {
        let of = |edits: Vec<LogitEdit>, min_p| Adjustment { allowed: None, edits, min_p };
        assert!(of(vec![LogitEdit::of(1), LogitEdit::of(2)], 0.1).check(3).is_ok());
        assert!(of(vec![LogitEdit::of(2), LogitEdit::of(1)], 0.0).check(3).is_err());
        assert!(of(vec![LogitEdit::of(1), LogitEdit::of(1)], 0.0).check(3).is_err());
        assert!(of(vec![LogitEdit::of(3)], 0.0).check(3).is_err());
        assert!(of(vec![], 1.5).check(3).is_err() && of(vec![], f64::NAN).check(3).is_err());
        for repetition in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(of(vec![LogitEdit { repetition, ..LogitEdit::of(0) }], 0.0).check(3).is_err(), "{repetition}");
        }
        assert!(of(vec![LogitEdit { bias: f32::NEG_INFINITY, ..LogitEdit::of(0) }], 0.0).check(3).is_ok());
    }
}
