//! Conversion between f32 and bf16.

use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::cpu::{self, Stored};
use super::product::{Element, Packable, Values, round};
use super::{pool, simd};
use crate::kernels::{self, Arg, Kernels, Launch, Module, blocks, module, vector_len};

/// Elements per task.
const CHUNK: usize = 16384;

/// Converts to f32, which is exact. f32 tensors are returned unchanged.
///
/// # Errors
/// A tensor that is not contiguous, or neither f32 nor bf16.
pub fn widened(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        DType::F32 => Ok(tensor.clone()),
        // Grids without blocks are invalid.
        _ if tensor.elem_count() == 0 => Tensor::zeros(tensor.dims(), DType::F32, tensor.device()),
        _ if !tensor.device().is_cpu() => tensor.to_dtype(DType::F32),
        _ => {
            let mut wide = vec![0f32; tensor.elem_count()];
            bf16::read(tensor, |narrow| {
                wide.par_chunks_mut(CHUNK)
                    .zip(narrow.par_chunks(CHUNK))
                    .for_each(|(wide, narrow)| narrow.convert_to_f32_slice(wide));
                Ok(())
            })?;
            Tensor::from_vec(wide, tensor.dims(), tensor.device())
        }
    }
}

/// Converts to f32 or bf16, rounding to nearest even. A tensor already in that format is returned unchanged.
///
/// # Errors
/// A tensor that is not contiguous, or neither f32 nor bf16.
pub fn converted(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    match dtype {
        DType::BF16 => {
            let narrow = Tensor::zeros(tensor.dims(), DType::BF16, tensor.device())?;
            round_into(tensor, &narrow)?;
            Ok(narrow)
        }
        _ => widened(tensor),
    }
}

/// [`converted`] of a CPU tensor into existing memory.
///
/// # Errors
/// Mismatched lengths, or as [`converted`].
pub fn convert_into(from: &Tensor, to: &Tensor) -> Result<()> {
    fn convert<T: Packable>(from: Values<'_>, to: &mut [T]) {
        let chunks = to.par_chunks_mut(CHUNK).enumerate();
        chunks.for_each_init(Vec::new, |scratch, (index, to)| {
            let start = index * CHUNK;
            to.copy_from_slice(T::of(from.range(start..start + to.len()), scratch));
        });
    }
    if from.elem_count() != to.elem_count() {
        bail!("converting {} values into {}", from.elem_count(), to.elem_count());
    }
    Values::read(from, |from| match to.dtype() {
        DType::BF16 => bf16::update(to, |to| {
            convert(from, to);
            Ok(())
        }),
        _ => cpu::update(to, |to| {
            convert(from, to);
            Ok(())
        }),
    })
}

/// Converts a parameter to the format that its device's ops accept: bf16 for kernels, f32 for CPU versions.
///
/// # Errors
/// As [`widened`].
pub fn in_compute_dtype(parameter: &Tensor) -> Result<Tensor> {
    match kernels::of(parameter.device())? {
        Some(_) => Ok(parameter.clone()),
        None => widened(parameter),
    }
}

/// Rounds CPU activations to bf16, to nearest even, and recycles their memory.
///
/// # Errors
/// A tensor that is not contiguous f32.
pub fn narrowed(wide: Tensor) -> Result<Tensor> {
    let narrow = cpu::tensor(pool::values::<bf16>(wide.elem_count()), wide.dims())?;
    round_into(&wide, &narrow)?;
    pool::recycle(wide)?;
    Ok(narrow)
}

/// Rounds columns of activations [N, width], computed in f32 on a CPU, in place to numbers representable in `dtype`, to
/// nearest even. Tensors of `dtype` are unchanged.
///
/// # Errors
/// Columns beyond the width, or a tensor that is not contiguous f32.
pub fn round_columns(x: &Tensor, columns: Range<usize>, dtype: DType) -> Result<()> {
    let width = x.dim(1)?;
    if columns.end > width {
        bail!("rounding columns {columns:?} of {width}");
    }
    if x.dtype() == dtype {
        return Ok(());
    }
    let rows = CHUNK.div_ceil(width.max(1));
    cpu::update(x, |x| {
        x.par_chunks_mut(rows * width.max(1)).for_each(|x| {
            simd::vectorized(
                #[inline(always)]
                || {
                    for row in x.chunks_exact_mut(width) {
                        row[columns.clone()].iter_mut().for_each(|x| *x = x.narrow().widen());
                    }
                },
            );
        });
        Ok(())
    })
}

/// Rounds `wide` (f32) to nearest even into `narrow` (bf16), in place.
///
/// # Errors
/// Mismatched lengths or number formats.
pub fn round_into(wide: &Tensor, narrow: &Tensor) -> Result<()> {
    if wide.elem_count() != narrow.elem_count() {
        bail!("rounding {} values into {}", wide.elem_count(), narrow.elem_count());
    }
    if let Some(kernels) = kernels::of(wide.device())? {
        return launch_round_into(&*kernels, wide, narrow);
    }
    cpu::read(wide, |wide| {
        bf16::update(narrow, |narrow| {
            narrow.par_chunks_mut(CHUNK).zip(wide.par_chunks(CHUNK)).for_each(|(narrow, wide)| round(wide, narrow));
            Ok(())
        })
    })
}

/// Rounds f32 values in place to the nearest bf16 numbers, ties to even.
///
/// # Errors
/// A tensor that is not contiguous f32.
pub fn round_in_place(values: &Tensor) -> Result<()> {
    if let Some(kernels) = kernels::of(values.device())? {
        return launch_round_in_place(&*kernels, values);
    }
    cpu::update(values, |values| {
        values.par_chunks_mut(CHUNK).for_each(|values| {
            simd::vectorized(
                #[inline(always)]
                || values.iter_mut().for_each(|x| *x = x.narrow().widen()),
            );
        });
        Ok(())
    })
}

// ── Kernel launches ──

const MODULE: Module = module!("cast");

fn launch_round_into(kernels: &dyn Kernels, wide: &Tensor, narrow: &Tensor) -> Result<()> {
    if (wide.dtype(), narrow.dtype()) != (DType::F32, DType::BF16) {
        bail!("rounding {:?} into {:?}; f32 into bf16 is expected", wide.dtype(), narrow.dtype());
    }
    let count = wide.elem_count();
    kernels.launch(&Launch {
        kernel: "cast_round_into".into(),
        grid: [blocks(count, vector_len(DType::BF16))?, 1, 1],
        args: &[Arg::In(wide), Arg::Out(narrow), Arg::U64(count as u64)],
        ..Launch::of(MODULE)
    })
}

fn launch_round_in_place(kernels: &dyn Kernels, values: &Tensor) -> Result<()> {
    if values.dtype() != DType::F32 {
        bail!("rounding {:?} in place; f32 is expected", values.dtype());
    }
    let count = values.elem_count();
    kernels.launch(&Launch {
        kernel: "cast_round_in_place".into(),
        grid: [blocks(count, vector_len(DType::F32))?, 1, 1],
        args: &[Arg::Out(values), Arg::U64(count as u64)],
        ..Launch::of(MODULE)
    })
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn bf16_rounds_to_nearest_even_and_widens_exactly() {
        // 1 + 2⁻⁸ and 1 + 3·2⁻⁸ are halfway between two bf16 numbers; the even neighbours are 1 and 1 + 2⁻⁶.
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
