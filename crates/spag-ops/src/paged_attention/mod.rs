//! Attention over a paged KV cache, for prefill and decode.
//!
//! A page holds the keys and values of [`PageShape::tokens`] consecutive tokens for one layer. Sequences with a common
//! prefix share pages.
//!
//! On a CPU every row is computed independently in one fixed order of operations, page by page, so a result depends
//! neither on the batch nor on chunking. Pages are f32 or bf16: bf16 halves the memory traffic of decoding, and
//! accumulation is f32 in both.
//!
//! A page's keys are stored as [KV head, head size, token] and its values as [KV head, token, head size], the
//! layouts that the product tiles read without a copy.
//!
//! On a GPU keys and values are both stored as [KV head, token, head size]. A result depends only on the [`Plan`]. Rounding may differ
//! between batches, because the split of a row's keys over blocks depends on the number of rows, unless the order is
//! [`SumOrder::Fixed`](crate::kernels::SumOrder::Fixed): then keys are processed 64 at a time, and for bf16 with head size 64 or 128 a row
//! is bit-identical to [`attention::forward`](super::attention::forward).

mod device;
mod forward;
mod groups;
mod pages;
mod plan;
mod tables;

pub use forward::forward;
pub use pages::{append, append_rotated, copy};
pub use plan::Plan;

use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};

use super::attention::Heads;

/// Shape of a page of one layer.
#[derive(Clone, Copy, Debug)]
pub struct PageShape {
    /// Tokens per page.
    pub tokens: usize,
    /// Head counts and size; pages hold the KV heads.
    pub heads: Heads,
}

impl PageShape {
    /// Elements of a page of keys or of values.
    pub fn elements(&self) -> usize {
        self.tokens * self.kv_size()
    }

    fn kv_size(&self) -> usize {
        self.heads.kv * self.heads.dim
    }

    fn query_size(&self) -> usize {
        self.heads.query * self.heads.dim
    }

    /// Width of a row of the fused QKV tensor.
    fn joined(&self) -> usize {
        self.query_size() + 2 * self.kv_size()
    }

    /// Checks the shape.
    fn check(&self) -> Result<()> {
        let Heads { query, kv, dim } = self.heads;
        if self.tokens == 0 || query == 0 || kv == 0 || dim == 0 || !query.is_multiple_of(kv) {
            bail!("paged attention: invalid page shape {self:?}");
        }
        Ok(())
    }
}

/// Consecutive rows of a batch that are consecutive tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Span<'a> {
    /// Rows in the batch.
    pub rows: Range<usize>,
    /// Position of the first row in the sequence.
    pub position: usize,
    /// The sequence's pages, in order; they must cover the last row.
    pub pages: &'a [u32],
}

/// Checks `qkv`, `keys` and `values` against the plan.
fn check(qkv: &Tensor, keys: &Tensor, values: &Tensor, plan: &Plan<'_>) -> Result<()> {
    let pages = [plan.pages, plan.shape.elements()];
    if qkv.dims() != [plan.rows, plan.shape.joined()] || keys.dims() != pages || values.dims() != pages {
        bail!(
            "paged attention: qkv {:?}, keys {:?}, values {:?}: not {} rows and {} pages of {:?}",
            qkv.dims(),
            keys.dims(),
            values.dims(),
            plan.rows,
            plan.pages,
            plan.shape
        );
    }
    // A CPU computes in f32, with pages in either format.
    let is_narrowed = qkv.device().is_cpu() && keys.dtype() == DType::BF16;
    if values.dtype() != keys.dtype() || keys.dtype() != qkv.dtype() && !is_narrowed {
        bail!("paged attention: {:?} with keys {:?} and values {:?}", qkv.dtype(), keys.dtype(), values.dtype());
    }
    Ok(())
}
