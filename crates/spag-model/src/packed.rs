//! Packed batches: sequences of different lengths concatenated without padding, and their target tokens.

use crate::error::{Error, Result};

/// Sequences concatenated without padding: N tokens. Built by the batcher, read by [`crate::Model`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedBatch {
    /// Token ids, `[N]`.
    pub ids: Vec<u32>,
    /// Position of each token in its sequence, `[N]`.
    pub positions: Vec<u32>,
    /// Row of the first token of each sequence and, last, N (`cu_seqlens` of FlashAttention).
    pub bounds: Vec<u32>,
}

impl PackedBatch {
    /// Concatenates sequences in the given order.
    pub fn new<'a>(sequences: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut packed = Self { bounds: vec![0], ..Self::default() };
        for sequence in sequences {
            packed.ids.extend_from_slice(sequence);
            packed.positions.extend(0..sequence.len() as u32);
            packed.bounds.push(packed.ids.len() as u32);
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Row of the packed batch whose output predicts the token, `[M]`.
    pub rows: Vec<u32>,
    /// The token to predict, `[M]`.
    pub tokens: Vec<u32>,
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
