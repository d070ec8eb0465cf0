//! The attention plan of a forward pass, shared by all layers.

use candle_core::{Result, Tensor, bail};

use super::groups::{Group, groups};
use super::pages::{Piece, pieces};
use super::tables::Tables;
use super::{PageShape, Span};
use crate::kernels::{self, Kernels, SumOrder};

/// The validated spans of a batch with derived data shared by all layers: rows by group and by page on a CPU, uploaded tables
/// on a device.
pub struct Plan<'a> {
    pub(super) rows: usize,
    /// Number of pages.
    pub(super) pages: usize,
    pub(super) shape: PageShape,
    pub(super) planned_on: PlannedOn<'a>,
}

/// Data of the CPU version or of the kernels.
pub(super) enum PlannedOn<'a> {
    Cpu { pieces: Vec<Piece>, groups: Vec<Group<'a>> },
    Device(Tables),
}

impl<'a> Plan<'a> {
    /// A plan for `spans` that cover the rows of a batch in order. `pages` are the keys or values of one layer, [pages,
    /// elements]; all layers must have the same shape, number format and device.
    ///
    /// # Errors
    /// Spans that skip rows or exceed the pages, pages of another shape, or out of memory for the tables.
    pub fn new(spans: &[Span<'a>], pages: &Tensor, shape: PageShape) -> Result<Self> {
        Self::padded(spans, 0, pages, (shape, SumOrder::Any))
    }

    /// [`Plan::new`] with a summation order, for a batch of at least `padded` rows. Rows beyond the spans are padding: their keys and
    /// values are not stored, and their outputs are undefined. Decoding passes with row counts rounded up can share captured graphs.
    ///
    /// # Errors
    /// As [`Plan::new`]; padding on a CPU.
    pub fn padded(
        spans: &[Span<'a>],
        padded: usize,
        pages: &Tensor,
        (shape, order): (PageShape, SumOrder),
    ) -> Result<Self> {
        shape.check()?;
        let (count, elements) = pages.dims2()?;
        if elements != shape.elements() {
            bail!("paged attention: pages {:?} are not of {shape:?}", pages.dims());
        }
        let mut rows = 0;
        for span in spans {
            if span.rows.start != rows || span.rows.end < rows {
                bail!("paged attention: rows {:?} do not follow row {rows}", span.rows);
            }
            rows = span.rows.end;
            let end = span.position + span.rows.len();
            if end.div_ceil(shape.tokens) > span.pages.len() {
                bail!("paged attention: {} pages do not reach position {end}", span.pages.len());
            }
            if let Some(page) = span.pages.iter().find(|page| **page as usize >= count) {
                bail!("paged attention: page {page} of {count}");
            }
        }
        let padding = padded.saturating_sub(rows);
        let planned_on = match kernels::of(pages.device())? {
            Some(kernels) => PlannedOn::Device(Tables::new(&*kernels, spans, padding, pages, (shape, order))?),
            None if padding > 0 => bail!("paged attention: a CPU pads no rows"),
            None => PlannedOn::Cpu { pieces: pieces(spans, shape.tokens), groups: groups(spans, shape.tokens) },
        };
        Ok(Self { rows: rows + padding, pages: count, shape, planned_on })
    }

    /// The key under which captured decoding passes can be replayed: rows with padding, splits and table length. `None` on a CPU,
    /// or if a span has several rows.
    pub fn graph_key(&self) -> Option<(usize, usize, usize)> {
        match &self.planned_on {
            PlannedOn::Device(tables) if tables.repeats(self.rows) => {
                Some((self.rows, tables.splits, tables.tensor.elem_count()))
            }
            _ => None,
        }
    }

    /// The device tables, the only difference between plans with the same key.
    pub fn tables(&self) -> Option<&Tensor> {
        match &self.planned_on {
            PlannedOn::Device(tables) => Some(&tables.tensor),
            PlannedOn::Cpu { .. } => None,
        }
    }

    /// A plan with the same key and uninitialized tables; `None` on a CPU.
    pub fn uninit_like(&self, kernels: &dyn Kernels) -> Result<Option<Plan<'static>>> {
        match &self.planned_on {
            PlannedOn::Device(tables) => {
                let planned_on = PlannedOn::Device(tables.uninit_like(kernels)?);
                Ok(Some(Plan { rows: self.rows, pages: self.pages, shape: self.shape, planned_on }))
            }
            PlannedOn::Cpu { .. } => Ok(None),
        }
    }
}
