//! Packed batches: sequences of different lengths concatenated without padding, or merged into trees, with their target
//! tokens.

mod tree;

use crate::error::{Error, Result};
use spag_ops::log_prob;
use spag_ops::sample::Distribution;

/// Unpadded sequences: N tokens in segments. Built by the batcher, read by [`Model`](crate::Model).
///
/// ```
/// use spag_model::batch::PackedBatch;
///
/// let (batch, rows) = PackedBatch::tree([&[1, 4, 5, 6][..], &[1, 4, 7], &[1, 4]]);
/// assert_eq!((batch.ids.as_slice(), batch.positions.as_slice()), (&[1, 4, 5, 6, 7][..], &[0, 1, 2, 3, 2][..]));
/// assert_eq!(rows, [vec![0, 1, 2, 3], vec![0, 1, 4], vec![0, 1]]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedBatch {
    /// Token ids, `[N]`.
    pub ids: Vec<u32>,
    /// Position of each token in its sequence, `[N]`.
    pub positions: Vec<u32>,
    /// Row of the first token of each segment and, last, N (`cu_seqlens` of FlashAttention).
    pub bounds: Vec<u32>,
    /// The parent segment that each segment continues, in depth-first order; `None` at the start of a sequence.
    pub parents: Vec<Option<u32>>,
    /// Whether sequences have rows in common.
    pub rows: Rows,
}

/// Whether the sequences of a batch have rows in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// No: every segment is a whole sequence.
    #[default]
    Apart,
    /// Yes: a segment's length is not that of its sequences.
    Merged,
}

impl PackedBatch {
    /// Concatenates sequences in the given order, each a segment.
    pub fn new<'a>(sequences: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut packed = Self { bounds: vec![0], ..Self::default() };
        for sequence in sequences {
            packed.ids.extend_from_slice(sequence);
            packed.positions.extend(0..sequence.len() as u32);
            packed.bounds.push(packed.ids.len() as u32);
            packed.parents.push(None);
        }
        packed
    }

    /// Number of tokens, N.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the batch has no tokens.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Prediction targets: M pairs of row and token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// Row of the packed batch whose output predicts the token, `[M]`.
    pub rows: Vec<u32>,
    /// The token to predict, `[M]`.
    pub tokens: Vec<u32>,
    /// The distribution of each log-probability, `[M]`; empty if all are the model's own.
    pub distributions: Vec<Distribution>,
}

impl<'a> From<&'a Targets> for log_prob::Targets<'a> {
    fn from(targets: &'a Targets) -> Self {
        Self { tokens: &targets.tokens, distributions: &targets.distributions }
    }
}

impl Targets {
    pub(crate) fn check(&self, batch: &PackedBatch) -> Result<()> {
        let n = batch.len();
        if self.rows.len() != self.tokens.len() {
            return Err(Error::Batch(format!("{} rows for {} target tokens", self.rows.len(), self.tokens.len())));
        }
        match self.rows.iter().find(|r| **r as usize >= n) {
            Some(row) => Err(Error::Batch(format!("target row {row} is outside the {n} tokens of the batch"))),
            None => Ok(()),
        }
    }
}
