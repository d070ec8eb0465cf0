//! Token embeddings for generation.

use candle_core::Tensor;

use super::head::Head;
use spag_ops::cast::convert_into;
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::{embedding, kernels};

/// The source of token embeddings.
pub(super) enum Embedding {
    /// A table, [V, D].
    Table { rows: Tensor, memory: TableMemory },
    /// A quantised matrix, [V, D].
    Quantised(PackedWeight),
    /// The tied output head.
    Head,
}

/// Ownership of a table's memory.
#[derive(PartialEq)]
pub(super) enum TableMemory {
    /// Possibly shared with a checkpoint: must not be written.
    Shared,
    Own,
}

impl Embedding {
    /// A table that may be shared.
    pub(super) fn shared(rows: Tensor) -> Self {
        Self::Table { rows, memory: TableMemory::Shared }
    }

    /// The embeddings of tokens, [N, D].
    pub(super) fn rows(&self, ids: &[u32], head: &Head) -> candle_core::Result<Tensor> {
        match self {
            Self::Table { rows, .. } => embedding::forward(ids, rows),
            Self::Quantised(matrix) => packed_linear::rows(ids, matrix),
            Self::Head => head.rows(ids),
        }
    }

    /// Converts another table to the number format of this one.
    pub(super) fn refresh(&mut self, matrix: &Tensor) -> candle_core::Result<()> {
        let Self::Table { rows, memory } = self else { return Ok(()) };
        if kernels::of(rows.device())?.is_some() {
            *rows = matrix.clone();
            return Ok(());
        }
        if *memory == TableMemory::Shared {
            (*rows, *memory) = (Tensor::zeros(rows.dims(), rows.dtype(), rows.device())?, TableMemory::Own);
        }
        convert_into(matrix, rows)
    }
}
