//! Gradient accumulation.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};
use crate::kernels;

/// Elements per task.
const CHUNK: usize = 16384;

/// Adds `from` to `to` in place. Both are flat f32 buffers of the same length that do not overlap.
///
/// # Errors
/// Mismatched lengths or number formats.
pub fn add_into(from: &Tensor, to: &Tensor) -> Result<()> {
    if from.elem_count() != to.elem_count() {
        bail!("adding {} values to {}", from.elem_count(), to.elem_count());
    }
    if from.elem_count() == 0 {
        // Grids without blocks are invalid.
        return Ok(());
    }
    if kernels::of(to.device())?.is_some() {
        return to.slice_set(&(to + from)?, 0, 0);
    }
    cpu::read(from, |from| {
        cpu::update(to, |to| {
            to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK)).for_each(|(to, from)| {
                simd::vectorized(
                    #[inline(always)]
                    || to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
                );
            });
            Ok(())
        })
    })
}

/// Sets a buffer to zero in place.
///
/// # Errors
/// An error of candle or of the device.
pub fn set_zero(buffer: &Tensor) -> Result<()> {
    // As above: candle would launch an empty grid.
    if buffer.elem_count() == 0 { Ok(()) } else { buffer.zero_set() }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn add_into_adds_every_element_once() {
        let count = 3 * CHUNK + 5;
        let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let from = Tensor::new(values.as_slice(), &Device::Cpu).unwrap();
        let to = Tensor::ones(count, candle_core::DType::F32, &Device::Cpu).unwrap();
        add_into(&from, &to).unwrap();
        add_into(&from, &to).unwrap();
        let sums = to.to_vec1::<f32>().unwrap();
        assert!(sums.iter().zip(&values).all(|(sum, value)| *sum == 1.0 + value + value));
        assert!(add_into(&from.narrow(0, 0, 3).unwrap(), &to).is_err());
    }
}
