//! Attention of new tokens over keys and values in pages, for prefill and decode alike.
//!
//! A page holds the keys and values of [`PageShape::tokens`] successive tokens of a sequence, for one layer, and may be
//! shared by sequences that begin alike.
//!
//! On a CPU every row is computed by itself in one fixed order of operations, page after page, so that a result depends
//! neither on what else is in the batch nor on how a prompt was cut into chunks. A page's keys lie by KV head, then
//! place in the head, then token; its values by KV head, token, place in the head: what the tiles of the two products
//! read without a copy.
//!
//! On a device a page's keys and values both lie by KV head, token, place in the head. A result is the same whenever the
//! [`Plan`] is, but may differ in rounding between batches: how the keys of a row are shared out among blocks depends on
//! how many rows there are.

mod device;
mod forward;
mod pages;
mod plan;
mod tables;

pub use forward::forward;
pub use pages::{append, copy};
pub use plan::Plan;

use std::ops::Range;

use candle_core::{Result, Tensor, bail};

use super::attention::Heads;

/// What a page of one layer holds.
#[derive(Clone, Copy, Debug)]
pub struct PageShape {
    /// Tokens.
    pub tokens: usize,
    /// Heads; the keys and values are those of the KV heads.
    pub heads: Heads,
}

impl PageShape {
    /// Values of a page: keys or values of its tokens.
    pub fn elements(&self) -> usize {
        self.tokens * self.kv_size()
    }

    fn kv_size(&self) -> usize {
        self.heads.kv * self.heads.dim
    }

    fn query_size(&self) -> usize {
        self.heads.query * self.heads.dim
    }

    /// Width of a row of queries, keys and values together.
    fn joined(&self) -> usize {
        self.query_size() + 2 * self.kv_size()
    }

    /// Rejects what no pages can hold.
    fn check(&self) -> Result<()> {
        let Heads { query, kv, dim } = self.heads;
        match self.tokens == 0 || query == 0 || kv == 0 || dim == 0 || !query.is_multiple_of(kv) {
            true => bail!("paged attention: no pages of {self:?}"),
            false => Ok(()),
        }
    }
}

/// Successive rows of a batch that are successive tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Span<'a> {
    /// The rows in the batch.
    pub rows: Range<usize>,
    /// Position in the sequence of the first of them.
    pub position: usize,
    /// The sequence's pages, in order; they reach beyond the last row.
    pub pages: &'a [u32],
}

/// Checks that `qkv`, `keys` and `values` are what the plan was made for.
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
    match keys.dtype() == qkv.dtype() && values.dtype() == qkv.dtype() {
        true => Ok(()),
        false => bail!("paged attention: {:?} beside pages of {:?}", qkv.dtype(), keys.dtype()),
    }
}
