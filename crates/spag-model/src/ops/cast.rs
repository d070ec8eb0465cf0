//! Between bf16 weights and the f32 that everything is computed in.

mod device;

use candle_core::{DType, Result, Tensor, bail};
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::cpu;
use crate::kernels;

/// Elements a task works through.
const CHUNK: usize = 16384;

/// `tensor` as f32: itself where it is, a widened copy where it is bf16. Widening loses nothing.
///
/// # Errors
/// A tensor that is not contiguous, or neither f32 nor bf16.
pub fn widened(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        DType::F32 => Ok(tensor.clone()),
        _ if !tensor.device().is_cpu() => tensor.to_dtype(DType::F32),
        _ => {
            let mut wide = vec![0f32; tensor.elem_count()];
            cpu::read_bf16(tensor, |narrow| {
                wide.par_chunks_mut(CHUNK)
                    .zip(narrow.par_chunks(CHUNK))
                    .for_each(|(wide, narrow)| narrow.convert_to_f32_slice(wide));
                Ok(())
            })?;
            Tensor::from_vec(wide, tensor.dims(), tensor.device())
        }
    }
}

/// A parameter as the ops on its device take it: kernels take bf16 itself, the CPU's versions f32.
///
/// # Errors
/// As [`widened`].
pub(crate) fn computable(parameter: &Tensor) -> Result<Tensor> {
    match kernels::of(parameter.device())? {
        Some(_) => Ok(parameter.clone()),
        None => widened(parameter),
    }
}

/// Writes `wide` (f32) into `narrow` (bf16), in place, rounded to nearest even.
///
/// # Errors
/// Lengths or number formats that do not fit.
pub fn round_into(wide: &Tensor, narrow: &Tensor) -> Result<()> {
    if wide.elem_count() != narrow.elem_count() {
        bail!("rounding {} values into {}", wide.elem_count(), narrow.elem_count());
    }
    if let Some(kernels) = kernels::of(wide.device())? {
        return device::round_into(&*kernels, wide, narrow);
    }
    cpu::read(wide, |wide| {
        cpu::update_bf16(narrow, |narrow| {
            narrow
                .par_chunks_mut(CHUNK)
                .zip(wide.par_chunks(CHUNK))
                .for_each(|(narrow, wide)| narrow.convert_from_f32_slice(wide));
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn rounding_is_to_nearest_even_and_widening_is_exact() {
        // 1 + 2⁻⁸ lies halfway between two bf16 numbers, as 1 + 3·2⁻⁸ does; the even neighbours are 1 and 1 + 2⁻⁶.
        let wide = Tensor::new(&[1.0f32, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -3.0e38, 1e-40], &Device::Cpu).unwrap();
        let narrow = Tensor::zeros(5, DType::BF16, &Device::Cpu).unwrap();
        round_into(&wide, &narrow).unwrap();
        let back = widened(&narrow).unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(back[..3], [1.0, 1.0, 1.0 + 1.0 / 64.0]);
        assert!((back[3] / -3.0e38 - 1.0).abs() < 1.0 / 256.0);
        let again = Tensor::zeros(5, DType::BF16, &Device::Cpu).unwrap();
        round_into(&widened(&narrow).unwrap(), &again).unwrap();
        assert_eq!(widened(&again).unwrap().to_vec1::<f32>().unwrap(), back);
        assert!(round_into(&wide, &Tensor::zeros(4, DType::BF16, &Device::Cpu).unwrap()).is_err());
    }
}
