//! What a learner learns from: sequences of tokens, and the spans of them that it predicts.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use spag_model::generate::Distribution;
use spag_rewards::SampleKind;

use crate::error::{Error, Result};

/// A sequence of tokens with the spans to learn. Made by [`encode`](crate::encode) from a sample of text, with one span, or
/// from the tokens that a policy has sampled; read by [`Learner::step`](crate::Learner::step).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// Its number in messages: the 0-based row of the training data.
    pub row: usize,
    /// All tokens.
    pub ids: Vec<u32>,
    /// What is learned, in the order of the tokens.
    pub spans: Vec<Span>,
}

/// Consecutive tokens of a trajectory that are learned together: a target, or an utterance. Losses read one ℓ for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The labels, as positions of the trajectory's tokens. May be empty if there is a leaf.
    pub tokens: Range<usize>,
    /// Positions among `tokens` that are context and no labels: what the engine wrote to end a policy's reasoning. Empty at any place
    /// if there are none.
    pub context: Range<usize>,
    /// One more label, which was sampled after `tokens` and is not part of the sequence: an end token before a conversation
    /// that goes on with other tokens. The token before the end of `tokens` predicts it, as it does the token that follows.
    pub leaf: Option<u32>,
    /// Game or SFT.
    pub kind: SampleKind,
    /// Its weight in the loss, w.
    pub weight: f64,
    /// Its reward r, or the advantage that follows from it.
    pub reward: f64,
    /// ℓ_ref: mean log-probability of the labels under the reference model, if it has been computed.
    pub ref_log_prob: Option<f64>,
    /// Log-probability of each label under the reference model, the leaf's last, if it has been computed.
    pub ref_token_log_probs: Option<Vec<f32>>,
    /// Log-probability of each label under the policy that sampled it, the leaf's last, if it is known.
    pub sampling_log_probs: Option<Vec<f32>>,
    /// The distribution that each label was drawn from, the leaf's last, under which all its log-probabilities are taken; the
    /// model's own if `None`.
    pub distributions: Option<Vec<Distribution>>,
}

impl Trajectory {
    /// Tokens before the first label.
    pub fn prompt_len(&self) -> usize {
        self.spans.first().map_or(self.ids.len(), |span| span.tokens.start)
    }

    /// Number of labels that are predicted.
    pub fn predicted(&self) -> usize {
        self.spans.iter().map(Span::predicted).sum()
    }

    /// Refuses spans that have no label, overlap or do not fit the tokens, and numbers that are not finite.
    ///
    /// # Errors
    /// [`Error::Sample`] with the trajectory's row.
    pub fn check(&self) -> Result<()> {
        let refused = |reason: String| Err(Error::Sample { row: self.row, reason });
        let mut end = 0;
        for span in &self.spans {
            let Span { tokens, weight, reward, .. } = span;
            let Range { start, end: stop } = *tokens;
            if start > stop || span.labels() == 0 || start < end || stop > self.ids.len() {
                let length = self.ids.len();
                return refused(format!(
                    "the span {start}..{stop} is empty, overlaps an earlier one or exceeds {length} tokens"
                ));
            }
            let Range { start: from, end: to } = span.context;
            if from < to && (from < start || to > stop) {
                return refused(format!("the context {from}..{to} is not within the span {start}..{stop}"));
            }
            if span.leaf.is_some() && stop == 0 {
                return refused("a leaf at the start of the sequence, where no token predicts it".into());
            }
            let known = [("sampling", &span.sampling_log_probs), ("reference", &span.ref_token_log_probs)];
            for (what, log_probs) in known {
                if let Some(count) = log_probs.as_ref().map(Vec::len).filter(|count| *count != span.labels()) {
                    return refused(format!("{count} {what} log-probabilities for {} labels", span.labels()));
                }
            }
            if let Some(count) = span.distributions.as_ref().map(Vec::len).filter(|count| *count != span.labels()) {
                return refused(format!("{count} distributions for {} labels", span.labels()));
            }
            if !(weight.is_finite() && reward.is_finite()) {
                return refused(format!("weight {weight} and reward {reward} must be finite"));
            }
            end = stop;
        }
        Ok(())
    }
}

impl Span {
    /// A span of a game with weight 1.
    pub fn new(tokens: Range<usize>, reward: f64) -> Self {
        let kind = SampleKind::Game;
        Self {
            tokens,
            context: 0..0,
            leaf: None,
            kind,
            weight: 1.0,
            reward,
            ref_log_prob: None,
            ref_token_log_probs: None,
            sampling_log_probs: None,
            distributions: None,
        }
    }

    /// An estimate of its divergence from the reference model: the sum over its labels of k1 = ln π_sampling − ln π_ref. As a part of
    /// the reward no gradient flows through it.
    ///
    /// # Errors
    /// [`Error::NoReference`] or [`Error::NoSampling`] if log-probabilities are missing.
    pub fn divergence(&self) -> Result<f64> {
        let sampling = self.sampling_log_probs.as_ref().ok_or(Error::NoSampling)?;
        let reference = self.ref_token_log_probs.as_ref().ok_or(Error::NoReference)?;
        Ok(sampling.iter().zip(reference).map(|(own, other)| f64::from(*own) - f64::from(*other)).sum())
    }

    /// Number of labels, the leaf included: the denominator of ℓ.
    ///
    /// A label at position 0 (a target that alone fills `max_length`) has no token before it and is not predicted; as in
    /// the reference it counts here and adds nothing to the sum.
    pub fn labels(&self) -> usize {
        self.tokens.len().saturating_sub(self.context.len()) + usize::from(self.leaf.is_some())
    }

    /// The labels in the sequence that are predicted.
    pub(crate) fn predicted_tokens(&self) -> impl Iterator<Item = usize> + use<> {
        let context = self.context.clone();
        (self.tokens.start.max(1)..self.tokens.end).filter(move |at| !context.contains(at))
    }

    /// Number of labels that are predicted, the leaf included.
    pub fn predicted(&self) -> usize {
        self.predicted_tokens().count() + usize::from(self.leaf.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_do_not_fit_are_refused() {
        let trajectory = |spans: Vec<Span>| Trajectory { row: 4, ids: vec![7; 6], spans };
        let sampled = |count| Span { sampling_log_probs: Some(vec![-1.0; count]), ..Span::new(1..3, 0.5) };
        assert!(trajectory(vec![sampled(2), Span::new(3..6, -1.0)]).check().is_ok());
        // An utterance that is only its end token.
        let ended = |tokens| Span { leaf: Some(9), ..Span::new(tokens, 1.0) };
        assert!(trajectory(vec![ended(2..2), ended(3..6)]).check().is_ok());
        for (spans, why) in [
            (vec![Span::new(2..2, 1.0)], "2..2 is empty"),
            (vec![Span::new(1..4, 1.0), Span::new(3..5, 1.0)], "3..5 is empty, overlaps"),
            (vec![Span::new(4..7, 1.0)], "exceeds 6 tokens"),
            (vec![sampled(3)], "3 sampling log-probabilities for 2 labels"),
            (vec![Span::new(1..2, f64::NAN)], "reward NaN"),
            (vec![Span { leaf: Some(9), ..sampled(2) }], "2 sampling log-probabilities for 3 labels"),
            (
                vec![Span { distributions: Some(vec![Distribution::of_model()]), ..sampled(2) }],
                "1 distributions for 2 labels",
            ),
            (vec![Span { ref_token_log_probs: Some(vec![]), ..sampled(2) }], "0 reference log-probabilities for 2"),
            (vec![Span { leaf: Some(9), ..Span::new(0..0, 1.0) }], "no token predicts it"),
            (vec![Span { leaf: Some(9), ..Span::new(7..7, 1.0) }], "exceeds 6 tokens"),
        ] {
            let said = trajectory(spans).check().unwrap_err().to_string();
            assert!(said.contains(why) && said.starts_with("row 5 of the training data"), "{said}");
        }
    }

    #[test]
    fn the_divergence_is_the_sum_of_differences_from_the_reference() {
        let (sampling_log_probs, ref_token_log_probs) = (Some(vec![-0.5, -1.0]), Some(vec![-1.5, -0.75]));
        let span = Span { leaf: Some(2), sampling_log_probs, ref_token_log_probs, ..Span::new(1..2, 1.0) };
        assert_eq!(span.divergence().unwrap(), 1.0 - 0.25);
        let without = Span { ref_token_log_probs: None, ..span.clone() };
        assert!(matches!(without.divergence(), Err(Error::NoReference)));
        assert!(matches!(Span { sampling_log_probs: None, ..span }.divergence(), Err(Error::NoSampling)));
    }

    #[test]
    fn labels_are_those_of_all_spans() {
        let trajectory =
            Trajectory { row: 0, ids: vec![5, 6, 7, 8, 9], spans: vec![Span::new(0..2, 1.0), Span::new(3..4, 1.0)] };
        assert_eq!((trajectory.predicted(), trajectory.prompt_len()), (2, 0));
        let ended = Span { leaf: Some(2), ..trajectory.spans[0].clone() };
        assert_eq!((ended.labels(), ended.predicted()), (3, 2));
    }
}
