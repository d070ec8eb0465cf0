//! Rounds activations to bf16, nearest even.

use half::bf16;
use rayon::prelude::*;

use super::Element;
#[cfg(target_arch = "x86_64")]
use super::Rows;
use super::buffer::Buffer;
use crate::simd;

/// Elements per task; fewer are rounded on the calling thread.
const CHUNK: usize = 1 << 15;
/// Alignment of [`QuantizedLhs`] rows in elements, as required by the instructions: 32 bf16 fill a row of a tile.
#[cfg(target_arch = "x86_64")]
const ALIGN: usize = 32;

/// Rounds `from` into `to`.
pub(crate) fn round<T: Element>(from: &[T], to: &mut [bf16]) {
    simd::vectorized(
        #[inline(always)]
        || {
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.narrow();
            }
        },
    );
}

/// Rounds `from` to bf16 values, stored in `to` as f32.
fn round_wide<T: Element>(from: &[T], to: &mut [f32]) {
    to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK)).for_each(|(to, from)| {
        simd::vectorized(
            #[inline(always)]
            || {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = from.narrow().widen();
                }
            },
        );
    });
}

/// Rounded rows in scratch memory of this thread.
#[cfg(target_arch = "x86_64")]
pub(super) struct QuantizedLhs {
    buffer: Buffer,
    rows: usize,
    stride: usize,
}

#[cfg(target_arch = "x86_64")]
impl QuantizedLhs {
    /// Rounds `a`, [m, k]. Rows are padded with zeros to a multiple of [`ALIGN`].
    pub(super) fn new<T: Element>((m, k): (usize, usize), a: &[T]) -> Self {
        let stride = k.next_multiple_of(ALIGN);
        let mut buffer = Buffer::new((m * stride).div_ceil(2));
        // SAFETY: the buffer has 4 bytes for every two elements; all bit patterns are valid.
        let rows = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<bf16>(), m * stride) };
        let pad = |row: &mut [bf16], a: &[T]| {
            let (row, padding) = row.split_at_mut(k);
            round(a, row);
            padding.fill(bf16::ZERO);
        };
        if let Some(rows_per_task) = CHUNK.checked_div(k) {
            let rows_per_task = rows_per_task.max(1);
            rows.par_chunks_mut(rows_per_task * stride).zip(a[..m * k].par_chunks(rows_per_task * k)).for_each(
                |(rows, a)| {
                    rows.chunks_exact_mut(stride).zip(a.chunks_exact(k)).for_each(|(row, a)| pad(row, a));
                },
            );
        }
        Self { buffer, rows: m, stride }
    }

    /// The rows.
    pub(super) fn rows(&self) -> Rows<'_, bf16> {
        // SAFETY: as in `new`, which has written every element.
        let values =
            unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast::<bf16>(), self.rows * self.stride) };
        Rows { values, stride: self.stride }
    }
}

/// Values rounded to bf16, stored as f32 in scratch memory of this thread.
pub(super) struct QuantizedLhsF32 {
    buffer: Buffer,
    len: usize,
}

impl QuantizedLhsF32 {
    /// Rounds `a`.
    pub(super) fn new<T: Element>(a: &[T]) -> Self {
        let mut buffer = Buffer::new(a.len());
        // SAFETY: the buffer has that many floats.
        round_wide(a, unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr(), a.len()) });
        Self { buffer, len: a.len() }
    }

    /// The values.
    pub(super) fn values(&self) -> &[f32] {
        // SAFETY: as in `new`, which has written every element.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr(), self.len) }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn rounds_as_the_half_crate_does() {
        let bits = (0..=u16::MAX).flat_map(|high| {
            [0u16, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | u32::from(low))
        });
        let values: Vec<f32> = bits.map(f32::from_bits).collect();
        let wide = QuantizedLhsF32::new(&values);
        let narrow = QuantizedLhs::new((1, values.len()), &values);
        for (at, value) in values.iter().enumerate() {
            let want = bf16::from_f32(*value);
            for found in [narrow.rows().values[at], bf16::from_bits((wide.values()[at].to_bits() >> 16) as u16)] {
                assert!(found.to_bits() == want.to_bits() || found.is_nan() && want.is_nan(), "{value}: {found}");
            }
        }
        assert!(narrow.rows().values[values.len()..].iter().all(|x| x.to_bits() == 0));
    }
}
