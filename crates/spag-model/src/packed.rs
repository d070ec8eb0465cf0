//! Sequences of any lengths packed one after another, and the tokens to predict in them.

use crate::error::{Error, Result};

/// Sequences packed without padding: N tokens in all. Made by batchers; read by [`crate::Llama`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedBatch {
    /// Token ids, `[N]`.
    pub ids: Vec<u32>,
    /// Position of each token in its sequence, `[N]`.
    pub positions: Vec<u32>,
    /// First token of each sequence and, last, N.
    pub bounds: Vec<u32>,
}

impl PackedBatch {
    /// Packs sequences in the given order.
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

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Which rows predict which tokens: M pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Row of the packed batch whose output predicts, `[M]`.
    pub rows: Vec<u32>,
    /// The token that comes next there, `[M]`.
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
