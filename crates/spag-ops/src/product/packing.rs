//! Packs weights in panels.

use half::bf16;
use half::slice::HalfFloatSliceExt;

use super::{COLUMNS, Element, Format, Values, Widened, quantize_lhs, transpose};
#[cfg(target_arch = "x86_64")]
use super::{Tiles, dot::Pairs, interleave};

/// Steps of a panel converted at a time, so that they fit into the second-level cache.
const STEPS: usize = 256;

/// A format with a packing function.
pub(crate) trait Packs: Format<Weight: Packable> {
    /// Writes row-major rows, at most `COLUMNS` of `k` elements each, to a panel.
    fn pack(rows: &[Self::Weight], k: usize, panel: &mut [Self::Weight]);
}

/// A number format whose values can be packed.
pub(crate) trait Packable: Element {
    /// Writes the transpose of row-major `rows`, each of `k` elements, to `panel` [k, COLUMNS]. Columns beyond the rows
    /// are unchanged.
    fn pack(rows: &[Self], k: usize, panel: &mut [Self]);

    /// `values` in this format: borrowed, or converted into `scratch`.
    fn of<'a>(values: Values<'a>, scratch: &'a mut Vec<Self>) -> &'a [Self];
}

impl<T: Packable> Packs for Widened<T> {
    fn pack(rows: &[T], k: usize, panel: &mut [T]) {
        T::pack(rows, k, panel);
    }
}

#[cfg(target_arch = "x86_64")]
impl Packs for Pairs {
    fn pack(rows: &[bf16], k: usize, panel: &mut [bf16]) {
        interleave::pack::<COLUMNS>(rows, k, panel);
    }
}

#[cfg(target_arch = "x86_64")]
impl Packs for Tiles {
    fn pack(rows: &[bf16], k: usize, panel: &mut [bf16]) {
        interleave::pack::<{ Self::COLUMNS }>(rows, k, panel);
    }
}

impl Packable for f32 {
    fn pack(rows: &[Self], k: usize, panel: &mut [Self]) {
        let count = rows.len() / k.max(1);
        assert!(panel.len() >= k * COLUMNS && count <= COLUMNS, "a panel is too short");
        // SAFETY: `count` rows of k elements, and k steps of `COLUMNS`.
        unsafe { transpose((count, k), rows.as_ptr(), k, panel.as_mut_ptr(), COLUMNS) }
    }

    fn of<'a>(values: Values<'a>, scratch: &'a mut Vec<Self>) -> &'a [Self] {
        match values {
            Values::F32(values) => values,
            Values::Bf16(values) => {
                scratch.resize(values.len(), 0.0);
                values.convert_to_f32_slice(scratch);
                scratch
            }
        }
    }
}

impl Packable for bf16 {
    fn pack(rows: &[Self], k: usize, panel: &mut [Self]) {
        let count = rows.len() / k.max(1);
        let (mut wide, mut turned) = (vec![0f32; count * STEPS], vec![0f32; STEPS * COLUMNS]);
        for step in (0..k).step_by(STEPS) {
            let steps = STEPS.min(k - step);
            for (wide, row) in wide.chunks_exact_mut(STEPS).zip(rows.chunks_exact(k)) {
                row[step..step + steps].convert_to_f32_slice(&mut wide[..steps]);
            }
            f32_columns((count, steps), &wide, &mut turned);
            let panel = &mut panel[step * COLUMNS..(step + steps) * COLUMNS];
            for (narrow, wide) in panel.iter_mut().zip(&turned) {
                // Exact: the other bits are zero.
                *narrow = Self::from_bits((wide.to_bits() >> 16) as u16);
            }
        }
    }

    fn of<'a>(values: Values<'a>, scratch: &'a mut Vec<Self>) -> &'a [Self] {
        match values {
            Values::Bf16(values) => values,
            Values::F32(values) => {
                scratch.resize(values.len(), Self::ZERO);
                quantize_lhs::round(values, scratch);
                scratch
            }
        }
    }
}

/// The transpose of `count` rows of `steps` elements with row stride [`STEPS`].
fn f32_columns((count, steps): (usize, usize), rows: &[f32], columns: &mut [f32]) {
    assert!(count <= COLUMNS && steps <= STEPS && rows.len() >= count * STEPS && columns.len() >= steps * COLUMNS);
    // SAFETY: the slices have the extents.
    unsafe { transpose((count, steps), rows.as_ptr(), STEPS, columns.as_mut_ptr(), COLUMNS) }
}
