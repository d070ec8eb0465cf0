//! Where the embeddings of tokens are found.

use candle_core::Tensor;

use super::head::Head;
use spag_ops::cast::convert_into;
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::{embedding, kernels};

/// Where the embeddings of tokens are found.
pub(super) enum Embedding {
    /// In a table, [V, D].
    Table { rows: Tensor, memory: TableMemory },
    /// In a quantised matrix, [V, D].
    Quantised(PackedWeight),
    /// In the output head, which is the same matrix.
    Head,
}

/// Who uses the memory of a table.
#[derive(PartialEq)]
pub(super) enum TableMemory {
    /// Perhaps a checkpoint too: it must not be written.
    Shared,
    Own,
}

impl Embedding {
    /// A table that others may use.
    pub(super) fn shared(rows: Tensor) -> Self {
        Self::Table { rows, memory: TableMemory::Shared }
    }

    /// Rows of tokens, [N, D].
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
