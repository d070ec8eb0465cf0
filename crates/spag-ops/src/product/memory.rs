//! Where panels are: in memory of their own, or in that of the matrix that they are made of.

use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::Line;
use super::{COLUMNS, Element};

/// Writes row-major rows, at most as many as a panel has columns, of `k` elements each, to the panel.
pub(super) type Pack<T> = fn(rows: &[T], k: usize, panel: &mut [T]);

/// Whether a matrix of `n` rows can be packed by [`Memory::pack_in_place`] in any format: panels have at most [`COLUMNS`].
pub(crate) fn fit_in_place(n: usize) -> bool {
    n.is_multiple_of(COLUMNS)
}

/// The memory of panels.
pub(super) enum Memory<T> {
    /// In memory of their own; the last panel is padded.
    Own(Vec<Line>),
    /// Where the matrix was, from an element on, beside other matrices. Panels may begin in the middle of a cache line.
    Shared(Arc<Vec<T>>, usize),
    /// In memory of the pool, for one product.
    #[cfg(target_arch = "x86_64")]
    Pooled(Vec<f32>),
}

impl<T: Element> Memory<T> {
    /// Packs a row-major matrix `[n, k]` in panels of `columns` columns: (n, k, columns).
    ///
    /// # Panics
    /// If the slice is shorter than its extents.
    pub(super) fn packed((n, k, columns): (usize, usize, usize), values: &[T], pack: Pack<T>) -> Self {
        let values = &values[..n * k];
        let of_panel = k * columns / T::PER_LINE;
        let mut lines = vec![Line::ZERO; n.div_ceil(columns) * of_panel];
        if k > 0 {
            lines.par_chunks_mut(of_panel).zip(values.par_chunks(columns * k)).for_each(|(lines, rows)| {
                // SAFETY: any bits are elements, and the lines hold k steps of `columns` of them.
                let panel = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<T>(), k * columns) };
                pack(rows, k, panel);
            });
        }
        Self::Own(lines)
    }

    /// As [`Memory::packed`], in the memory of the matrix, for [`Memory::shared`]. A panel takes the place of the rows that it
    /// is made of.
    ///
    /// # Panics
    /// If the slice is shorter than its extents, or the rows do not fill the last panel.
    pub(super) fn pack_in_place((n, k, columns): (usize, usize, usize), values: &mut [T], pack: Pack<T>) {
        assert!(fit_in_place(n), "panels: {n} rows do not fill the last panel");
        if k > 0 {
            values[..n * k].par_chunks_mut(columns * k).for_each_init(Vec::new, |rows, panel| {
                rows.clear();
                rows.extend_from_slice(panel);
                pack(rows, k, panel);
            });
        }
    }

    /// The panels that [`Memory::pack_in_place`] made of the matrix at `start`.
    ///
    /// # Panics
    /// If the values are fewer than its extents, or the rows do not fill the last panel.
    pub(super) fn shared((n, k): (usize, usize), values: Arc<Vec<T>>, start: usize) -> Self {
        assert!(fit_in_place(n) && values.len() >= start + n * k, "panels: the memory is too short");
        Self::Shared(values, start)
    }

    /// Elements from the first panel on.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(lines) => lines.len() * T::PER_LINE,
            Self::Shared(values, start) => values.len().saturating_sub(*start),
            #[cfg(target_arch = "x86_64")]
            Self::Pooled(values) => values.len() * size_of::<f32>() / size_of::<T>(),
        }
    }

    /// The first element of the first panel.
    pub(super) fn as_ptr(&self) -> *const T {
        match self {
            Self::Own(lines) => lines.as_ptr().cast(),
            Self::Shared(values, start) => values.as_ptr().wrapping_add(*start),
            #[cfg(target_arch = "x86_64")]
            Self::Pooled(values) => values.as_ptr().cast(),
        }
    }
}
