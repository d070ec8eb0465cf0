//! What a forward pass attends to, worked out once for all of its layers.

use candle_core::{Result, Tensor, bail};

use super::forward::{Group, groups};
use super::tables::Tables;
use super::{PageShape, Span};
use crate::kernels::{self, Kernels};

/// The spans of a batch, checked, and what the layers' calls have in common: on a CPU which rows go together, on a
/// device the tables that its kernels read, uploaded at once.
pub struct Plan<'a> {
    pub(super) rows: usize,
    /// Pages that there are.
    pub(super) pages: usize,
    pub(super) shape: PageShape,
    pub(super) way: Way<'a>,
}

/// Where the attention is computed.
pub(super) enum Way<'a> {
    Cpu { spans: Vec<Span<'a>>, groups: Vec<Group<'a>> },
    Device(Tables),
}

impl<'a> Plan<'a> {
    /// A plan for `spans` that cover the rows of a batch in order. `pages`: the keys or values of a layer,
    /// [pages, elements]; those of all layers are alike, in size, number format and device.
    ///
    /// # Errors
    /// Spans that leave rows out or reach outside the pages, pages that are not of `shape`, or a device that has no
    /// memory for the tables.
    pub fn new(spans: &[Span<'a>], pages: &Tensor, shape: PageShape) -> Result<Self> {
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
        let way = match kernels::of(pages.device())? {
            Some(kernels) => Way::Device(Tables::new(&*kernels, spans, pages, shape)?),
            None => Way::Cpu { spans: spans.to_vec(), groups: groups(spans, shape.tokens) },
        };
        Ok(Self { rows, pages: count, shape, way })
    }

    /// What two plans of single rows have in common where a recorded pass of one serves the other: rows, splits, and the
    /// length of the tables. `None` where the CPU computes or a span has several rows.
    pub(crate) fn graph_key(&self) -> Option<(usize, usize, usize)> {
        match &self.way {
            Way::Device(tables) if tables.tiles == 0 && tables.decoding == self.rows => {
                Some((self.rows, tables.splits, tables.tensor.elem_count()))
            }
            _ => None,
        }
    }

    /// The tables on the device, whose contents are all that changes between such plans.
    pub(crate) fn tables(&self) -> Option<&Tensor> {
        match &self.way {
            Way::Device(tables) => Some(&tables.tensor),
            Way::Cpu { .. } => None,
        }
    }

    /// A plan of the same kind whose tables are still to be written; `None` where the CPU computes.
    pub(crate) fn uninit_like(&self, kernels: &dyn Kernels) -> Result<Option<Plan<'static>>> {
        match &self.way {
            Way::Device(tables) => {
                let way = Way::Device(tables.uninit_like(kernels)?);
                Ok(Some(Plan { rows: self.rows, pages: self.pages, shape: self.shape, way }))
            }
            Way::Cpu { .. } => Ok(None),
        }
    }
}
