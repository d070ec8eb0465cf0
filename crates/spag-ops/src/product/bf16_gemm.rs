//! bf16 products for training: both operands are rounded to bf16 and packed for each product, and accumulation is in
//! f32.
//!
//! For AVX512-BF16 and AMX. The right operand is packed in panels of pairs. A row-major left operand is packed in
//! rows. A column-major one is packed in rows of pairs for AVX512-BF16, and transposed for tiles, which read rows.

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::amx::Tiles;
use super::dot::Pairs;
use super::interleave::interleave;
use super::memory::Memory;
use super::panels::Strided;
use super::quantize_lhs::QuantizedLhs;
use super::transpose_lhs::TransposedLhs;
use super::{CpuPath, Element, Format, Packs, Panels, RightOperand, Rows, Side, Start, Values};
use crate::pool;

/// Elements per task when a left operand is packed.
const CHUNK: usize = 1 << 15;

/// `c[m, n] = start + a[m, k]·b[k, n]`, with tiles if `path` supports them. The processor must have AVX512-BF16.
///
/// # Panics
/// If a slice is shorter than its extents.
pub(crate) fn product(
    path: CpuPath,
    extents: (usize, usize, usize),
    a: (Values<'_>, Side),
    b: RightOperand<'_>,
    c: &mut [f32],
    start: Start<'_>,
) {
    match path {
        CpuPath::Amx => compute::<Tiles>(extents, a, b, c, start),
        _ => compute::<Pairs>(extents, a, b, c, start),
    }
}

/// A format that supports both orders of a left operand.
trait Training: Packs + Format<Weight = bf16, Activation = bf16> {
    /// `c[m, n] = start + a·panels`, with `a` row-major [k, m].
    fn of_columns<T: Element>(panels: &Panels<Self>, m: usize, a: &[T], c: &mut [f32], start: Start<'_>);
}

impl Training for Pairs {
    fn of_columns<T: Element>(panels: &Panels<Self>, m: usize, a: &[T], c: &mut [f32], start: Start<'_>) {
        let a = Interleaved::new((panels.k(), m), a);
        // SAFETY: every two steps have a row of m pairs, the last of which may lack its second elements.
        unsafe { panels.product_of(m, Strided { values: a.values(), row: 2, k: m }, c, start) }
    }
}

impl Training for Tiles {
    fn of_columns<T: Element>(panels: &Panels<Self>, m: usize, a: &[T], c: &mut [f32], start: Start<'_>) {
        panels.product(m, TransposedLhs::new((panels.k(), m), a).rows(), c, start);
    }
}

fn compute<F: Training>(
    (m, k, n): (usize, usize, usize),
    (a, side): (Values<'_>, Side),
    b: RightOperand<'_>,
    c: &mut [f32],
    start: Start<'_>,
) {
    assert!(a.len() >= m * k, "product: the left side is too short");
    let panels = packed::<F>((k, n), b);
    match (side, a) {
        (Side::Rows, Values::F32(a)) => panels.product(m, QuantizedLhs::new((m, k), a).rows(), c, start),
        // Whole steps are read in place.
        (Side::Rows, Values::Bf16(a)) if k.is_multiple_of(F::STEPS) => {
            panels.product(m, Rows { values: a, stride: k }, c, start)
        }
        (Side::Rows, Values::Bf16(a)) => panels.product(m, QuantizedLhs::new((m, k), a).rows(), c, start),
        (Side::Columns, Values::F32(a)) => F::of_columns(&panels, m, a, c, start),
        (Side::Columns, Values::Bf16(a)) => F::of_columns(&panels, m, a, c, start),
    }
    if let Memory::Pooled(memory) = panels.into_memory() {
        pool::give(memory);
    }
}

/// Packs a right operand in pool memory.
fn packed<F: Packs + Format<Weight = bf16>>((k, n): (usize, usize), b: RightOperand<'_>) -> Panels<F> {
    let mut memory = pool::values::<f32>((n.next_multiple_of(F::COLUMNS) * k).div_ceil(2));
    // SAFETY: the floats have 4 bytes for every two elements; any bits are numbers.
    let panels = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<bf16>(), memory.len() * 2) };
    let each = panels.par_chunks_exact_mut((k * F::COLUMNS).max(1)).enumerate();
    match b {
        RightOperand::Rows(Values::F32(values)) => {
            let values = &values[..k * n];
            each.for_each(|(panel, to)| {
                interleave_panel((k, n), values, panel * F::COLUMNS..n.min((panel + 1) * F::COLUMNS), to)
            });
        }
        RightOperand::Rows(Values::Bf16(values)) => {
            let values = &values[..k * n];
            each.for_each(|(panel, to)| {
                interleave_panel((k, n), values, panel * F::COLUMNS..n.min((panel + 1) * F::COLUMNS), to)
            });
        }
        RightOperand::Columns(values) => {
            let values = &values[..k * n];
            each.for_each(|(panel, to)| {
                let rows = panel * F::COLUMNS..n.min((panel + 1) * F::COLUMNS);
                if rows.len() < F::COLUMNS {
                    to.fill(bf16::ZERO);
                }
                F::pack(&values[rows.start * k..rows.end * k], k, to);
            });
        }
    }
    Panels::of_memory(n, k, Memory::Pooled(memory))
}

/// Writes some columns of a row-major matrix [k, n] to a panel.
fn interleave_panel<T: Element>((k, n): (usize, usize), values: &[T], columns: Range<usize>, panel: &mut [bf16]) {
    let (of_step, width) = (panel.len() / k.max(1), columns.len());
    let row = |step: usize| &values[step * n + columns.start..step * n + columns.end];
    for step in (0..k & !1).step_by(2) {
        let to = &mut panel[step * of_step..(step + 2) * of_step];
        interleave(row(step), row(step + 1), &mut to[..2 * width]);
        to[2 * width..].fill(bf16::ZERO);
    }
    if k % 2 == 1 {
        // A last step without partner is stored contiguously.
        let to = &mut panel[(k - 1) * of_step..k * of_step];
        for (to, value) in to.iter_mut().zip(row(k - 1)) {
            *to = value.narrow();
        }
        to[width..].fill(bf16::ZERO);
    }
}

/// A column-major left operand in rows of pairs, in pool memory.
struct Interleaved(Vec<f32>);

impl Interleaved {
    /// Rounds and interleaves a row-major matrix [k, m]. An unpaired last row is paired with zeros.
    fn new<T: Element>((k, m): (usize, usize), values: &[T]) -> Self {
        let values = &values[..k * m];
        let mut memory = pool::values::<f32>(k.div_ceil(2) * m);
        // SAFETY: a float has the 4 bytes of two elements; any bits are numbers.
        let pairs = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<bf16>(), memory.len() * 2) };
        if let Some(rows) = CHUNK.checked_div(m) {
            let rows = rows.max(1);
            pairs.par_chunks_mut(rows * 2 * m).zip(values.par_chunks(rows * 2 * m)).for_each(|(pairs, values)| {
                for (pairs, values) in pairs.chunks_exact_mut(2 * m).zip(values.chunks(2 * m)) {
                    let (even, odd) = values.split_at(m);
                    interleave(even, odd, pairs);
                }
            });
        }
        Self(memory)
    }

    fn values(&self) -> &[bf16] {
        // SAFETY: as in `new`, which has written every element.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<bf16>(), self.0.len() * 2) }
    }
}

impl Drop for Interleaved {
    fn drop(&mut self) {
        pool::give(std::mem::take(&mut self.0));
    }
}
