//! Sum of squares of a buffer, for gradient clipping by global norm.

use candle_core::{DType, Result, Tensor, bail};
use rayon::prelude::*;

use super::cpu::{self, Stored};
use super::simd;
use crate::kernels::{self, Arg, Kernels, Launch, Module, THREADS, blocks, module, vector_len};

/// Elements summed in f32 before accumulating in f64. Fixed, so that the result does not depend on the number of
/// threads.
const CHUNK: usize = 4096;

/// The sum of squares, accumulated in f64. Synchronizes with the device.
///
/// # Errors
/// A tensor that is not contiguous f32.
pub fn squared_norm(x: &Tensor) -> Result<f64> {
    if kernels::of(x.device())?.is_some() {
        let sum = Tensor::zeros(1, DType::F64, x.device())?;
        squared_norm_into(std::slice::from_ref(x), &sum)?;
        return sum.get(0)?.to_scalar();
    }
    cpu::read(x, |x| {
        let parts: Vec<f64> = x
            .par_chunks(CHUNK)
            .map(|chunk| {
                f64::from(simd::vectorized(
                    #[inline(always)]
                    || simd::dot(chunk, chunk),
                ))
            })
            .collect();
        Ok(parts.iter().sum())
    })
}

/// Adds the sum of squares of all tensors to `into`, `[1]`, f64. Does not synchronize with the device.
///
/// # Errors
/// A tensor that is not contiguous f32, or a sum of the wrong shape or number format.
pub fn squared_norm_into(all: &[Tensor], into: &Tensor) -> Result<()> {
    if into.dims() != [1] || into.dtype() != DType::F64 {
        bail!("squared_norm: the sum is {:?} {:?}, not f64 [1]", into.dtype(), into.dims());
    }
    if let Some(kernels) = kernels::of(into.device())? {
        return launch_add(&*kernels, all, into);
    }
    for x in all {
        let sum = squared_norm(x)?;
        f64::update(into, |into| {
            into[0] += sum;
            Ok(())
        })?;
    }
    Ok(())
}

// ── Kernel launches ──

const MODULE: Module = module!("squared_norm");
/// Maximum number of blocks of a tensor, each with a partial sum. Fixed, so that the result does not depend on the device.
const PARTS: u32 = 1024;

fn launch_add(kernels: &dyn Kernels, all: &[Tensor], into: &Tensor) -> Result<()> {
    if let Some(x) = all.iter().find(|x| x.dtype() != DType::F32) {
        bail!("squared_norm: expected f32 values, got {:?}", x.dtype());
    }
    let parts = |x: &Tensor| Ok(blocks(x.elem_count(), vector_len(DType::F32))?.min(PARTS));
    let parts = all.iter().map(parts).collect::<Result<Vec<_>>>()?;
    let count: u32 = parts.iter().sum();
    if count == 0 {
        return Ok(());
    }
    let partial = kernels.empty(&[count as usize], DType::F64)?;
    let launch = |kernel: &str, blocks: u32, args: &[Arg<'_>]| {
        kernels.launch(&Launch {
            kernel: kernel.into(),
            grid: [blocks, 1, 1],
            shared_bytes: THREADS as usize * size_of::<f64>(),
            args,
            ..Launch::of(MODULE)
        })
    };
    let mut first = 0;
    for (x, parts) in all.iter().zip(parts).filter(|(_, parts)| *parts > 0) {
        let own = partial.narrow(0, first, parts as usize)?;
        first += parts as usize;
        launch("squared_norm_parts", parts, &[Arg::In(x), Arg::Out(&own), Arg::U64(x.elem_count() as u64)])?;
    }
    launch("squared_norm_add", 1, &[Arg::In(&partial), Arg::Out(into), Arg::U32(count)])
}
