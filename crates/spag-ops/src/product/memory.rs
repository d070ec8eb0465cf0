//! Memory of panels: owned, or that of the source matrix.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::Line;
use super::{COLUMNS, Packable, Values};

/// Packs row-major rows of `k` elements, at most as many as a panel has columns, into a panel.
pub(super) type Pack<T> = fn(rows: &[T], k: usize, panel: &mut [T]);

/// Whether a matrix of `n` rows can be packed by [`Memory::pack_in_place`] in any format: panels have at most [`COLUMNS`].
pub(crate) fn fit_in_place(n: usize) -> bool {
    n.is_multiple_of(COLUMNS)
}

/// Memory shared by several matrices. Each [`Memory::Shared`] accesses only the elements of its own matrix.
pub(crate) struct SharedMemory<T> {
    start: *mut T,
    len: usize,
    capacity: usize,
}

// SAFETY: it owns its elements like a vector. Elements are written only through an exclusive reference to the one
// `Memory::Shared` whose matrix they belong to.
unsafe impl<T: Send> Send for SharedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedMemory<T> {}

impl<T> From<Vec<T>> for SharedMemory<T> {
    fn from(values: Vec<T>) -> Self {
        let mut values = ManuallyDrop::new(values);
        Self { start: values.as_mut_ptr(), len: values.len(), capacity: values.capacity() }
    }
}

impl<T> Drop for SharedMemory<T> {
    fn drop(&mut self) {
        // SAFETY: these are the parts of the vector that `from` took apart.
        drop(unsafe { Vec::from_raw_parts(self.start, self.len, self.capacity) });
    }
}

/// The memory of panels.
pub(super) enum Memory<T> {
    /// Owned; the last panel is padded.
    Own(Vec<Line>),
    /// The memory of the source matrix, from an element on, shared with other matrices. Panels may start in the middle
    /// of a cache line.
    Shared(Arc<SharedMemory<T>>, usize),
    /// Pool memory, for one product.
    #[cfg(target_arch = "x86_64")]
    Pooled(Vec<f32>),
}

impl<T: Packable> Memory<T> {
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
                // SAFETY: all bit patterns are valid elements, and the lines hold k steps of `columns` of them.
                let panel = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<T>(), k * columns) };
                pack(rows, k, panel);
            });
        }
        Self::Own(lines)
    }

    /// [`Memory::packed`] in the memory of the matrix, for [`Memory::shared`]. A panel replaces the rows that it is made of.
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

    /// [`Memory::packed`] in the memory of panels of the same extents, with the values converted to their format.
    ///
    /// # Panics
    /// If the values or the memory are shorter than the extents.
    pub(super) fn repack(&mut self, (n, k, columns): (usize, usize, usize), values: Values<'_>, pack: Pack<T>) {
        let (of_panel, count) = (k * columns, n * k);
        assert!(values.len() >= count, "panels: {} values for {count}", values.len());
        if k > 0 {
            let panels = self.as_mut_slice(n.div_ceil(columns) * of_panel).par_chunks_exact_mut(of_panel);
            panels.enumerate().for_each_init(Vec::new, |scratch, (index, panel)| {
                let rows = values.range(index * of_panel..count.min((index + 1) * of_panel));
                pack(T::of(rows, scratch), k, panel);
            });
        }
    }

    /// The first `len` elements of the panels.
    ///
    /// # Panics
    /// If the memory is shorter.
    fn as_mut_slice(&mut self, len: usize) -> &mut [T] {
        let (start, available) = match self {
            Self::Own(lines) => (lines.as_mut_ptr().cast::<T>(), lines.len() * T::PER_LINE),
            Self::Shared(values, start) => (values.start.wrapping_add(*start), values.len.saturating_sub(*start)),
            #[cfg(target_arch = "x86_64")]
            Self::Pooled(values) => (values.as_mut_ptr().cast(), values.len() * size_of::<f32>() / size_of::<T>()),
        };
        assert!(available >= len, "panels: the memory is too short");
        // SAFETY: the elements are initialised and inside the memory. `self` is borrowed exclusively, and in shared memory
        // these elements belong only to this matrix.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// The panels made by [`Memory::pack_in_place`] of the matrix at `start`. Nothing else may use the matrix's elements.
    ///
    /// # Panics
    /// If the values are fewer than its extents, or the rows do not fill the last panel.
    pub(super) fn shared((n, k): (usize, usize), values: Arc<SharedMemory<T>>, start: usize) -> Self {
        assert!(fit_in_place(n) && values.len >= start + n * k, "panels: the memory is too short");
        Self::Shared(values, start)
    }

    /// Number of elements from the first panel on.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(lines) => lines.len() * T::PER_LINE,
            Self::Shared(values, start) => values.len.saturating_sub(*start),
            #[cfg(target_arch = "x86_64")]
            Self::Pooled(values) => values.len() * size_of::<f32>() / size_of::<T>(),
        }
    }

    /// The first element of the first panel.
    pub(super) fn as_ptr(&self) -> *const T {
        match self {
            Self::Own(lines) => lines.as_ptr().cast(),
            Self::Shared(values, start) => values.start.cast_const().wrapping_add(*start),
            #[cfg(target_arch = "x86_64")]
            Self::Pooled(values) => values.as_ptr().cast(),
        }
    }
}
