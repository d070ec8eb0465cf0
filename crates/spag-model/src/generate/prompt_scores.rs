//! Log-probabilities of a prompt, computed chunk by chunk.

use std::ops::Range;

use spag_ops::sample::TokenLogProb;

/// The log-probabilities computed so far for a range of a prompt. Kept when a sequence is preempted, so that no position
/// is computed twice.
pub(super) struct PromptScores {
    /// The requested positions.
    positions: Range<usize>,
    /// Results of the first positions, in order.
    done: Vec<Option<TokenLogProb>>,
}

impl PromptScores {
    pub(super) fn new(positions: Range<usize>) -> Self {
        let mut scores = Self { done: Vec::with_capacity(positions.len()), positions };
        if scores.positions.start == 0 && !scores.positions.is_empty() {
            // The first token has no predecessor.
            scores.done.push(None);
        }
        scores
    }

    pub(super) fn is_complete(&self) -> bool {
        self.done.len() == self.positions.len()
    }

    /// The next row whose logits are needed: the one before the next token to score. It must not be skipped.
    pub(super) fn next_row(&self) -> Option<usize> {
        (!self.is_complete()).then(|| self.positions.start + self.done.len() - 1)
    }

    /// The positions of a chunk whose logits are needed.
    pub(super) fn rows_in(&self, chunk: &Range<usize>) -> Range<usize> {
        let Some(next) = self.next_row() else { return 0..0 };
        let rows = next.max(chunk.start)..chunk.end.min(self.positions.end - 1);
        if rows.is_empty() { 0..0 } else { rows }
    }

    /// Stores the log-probability of the next token.
    pub(super) fn push(&mut self, scored: TokenLogProb) {
        self.done.push(Some(scored));
    }

    /// The log-probabilities so far.
    pub(super) fn done(&self) -> &[Option<TokenLogProb>] {
        &self.done
    }

    /// All log-probabilities.
    pub(super) fn into_done(self) -> Vec<Option<TokenLogProb>> {
        self.done
    }
}
