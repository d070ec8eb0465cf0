//! Attention of new tokens over keys and values in pages, for prefill and decode alike.
//!
//! A page holds the keys and values of [`PageShape::tokens`] successive tokens of a sequence, for one layer, and may be
//! shared by sequences that begin alike. Every row is computed by itself in one fixed order of operations, page after
//! page, so that a result depends neither on what else is in the batch nor on how a prompt was cut into chunks.
//!
//! A page's keys lie by KV head, then place in the head, then token; its values by KV head, token, place in the head:
//! what the tiles of the two products read without a copy.

mod forward;
mod pages;

pub use forward::forward;
pub use pages::{append, copy};

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

/// Checks that the spans cover the rows of `qkv` in order and stay inside the pages of `keys` and `values`.
fn check(qkv: &Tensor, keys: &Tensor, values: &Tensor, spans: &[Span<'_>], shape: PageShape) -> Result<()> {
    let (n, width) = qkv.dims2()?;
    let (count, elements) = keys.dims2()?;
    let Heads { query, kv, dim } = shape.heads;
    if shape.tokens == 0 || kv == 0 || dim == 0 || !query.is_multiple_of(kv) {
        bail!("paged attention: no pages of {shape:?}");
    }
    if width != shape.joined() || elements != shape.elements() || values.dims() != keys.dims() {
        bail!(
            "paged attention: qkv {:?}, keys {:?}, values {:?}: not {shape:?}",
            qkv.dims(),
            keys.dims(),
            values.dims()
        );
    }
    let mut next = 0;
    for span in spans {
        if span.rows.start != next || span.rows.end < next {
            bail!("paged attention: rows {:?} do not follow row {next}", span.rows);
        }
        next = span.rows.end;
        if (span.position + span.rows.len()).div_ceil(shape.tokens) > span.pages.len() {
            bail!(
                "paged attention: {} pages do not reach position {}",
                span.pages.len(),
                span.position + span.rows.len()
            );
        }
        if let Some(page) = span.pages.iter().find(|page| **page as usize >= count) {
            bail!("paged attention: page {page} of {count}");
        }
    }
    match next == n {
        true => Ok(()),
        false => bail!("paged attention: spans of {next} rows for {n}"),
    }
}
