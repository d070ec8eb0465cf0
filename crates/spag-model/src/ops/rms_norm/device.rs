//! RMSNorm by the kernels of `rms_norm.cu`.

use candle_core::{DType, Result, Tensor};

use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix};

const MODULE: Module = module!("rms_norm");
const THREADS: u32 = 256;
/// Blocks of the backward pass at most, each with a part of the weight's gradient.
const PARTS: usize = 264;
/// Shared memory that a reduction over the block needs.
const SCRATCH_BYTES: usize = 32 * 4;

pub(super) fn forward(kernels: &dyn Kernels, x: &Tensor, w: &Tensor, eps: f32) -> Result<Tensor> {
    let (n, d) = x.dims2()?;
    let y = kernels.empty(&[n, d], x.dtype())?;
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("rms_norm_forward_{}", suffix(x.dtype())?),
        grid: [n as u32, 1, 1],
        block: THREADS,
        shared_bytes: SCRATCH_BYTES,
        args: &[Arg::In(x), Arg::In(w), Arg::Out(&y), Arg::U32(d as u32), Arg::F32(eps)],
    })?;
    Ok(y)
}

pub(super) fn backward(
    kernels: &dyn Kernels,
    (x, w, eps): (&Tensor, &Tensor, f32),
    dy: &Tensor,
    residual: Option<&Tensor>,
    dw: &Tensor,
) -> Result<Tensor> {
    let (n, d) = x.dims2()?;
    let dx = kernels.empty(&[n, d], x.dtype())?;
    let parts = n.min(PARTS);
    let partial = kernels.empty(&[parts, d], DType::F32)?;
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("rms_norm_backward_{}", suffix(x.dtype())?),
        grid: [parts as u32, 1, 1],
        block: THREADS,
        shared_bytes: SCRATCH_BYTES + d * size_of::<f32>(),
        args: &[
            Arg::In(x),
            Arg::In(w),
            Arg::In(dy),
            residual.map_or(Arg::Null, Arg::In),
            Arg::Out(&dx),
            Arg::Out(&partial),
            Arg::U32(n as u32),
            Arg::U32(d as u32),
            Arg::F32(eps),
        ],
    })?;
    kernels.launch(&Launch {
        module: MODULE,
        kernel: "rms_norm_sum_parts".into(),
        grid: [(d as u32).div_ceil(THREADS), 1, 1],
        block: THREADS,
        shared_bytes: 0,
        args: &[Arg::In(&partial), Arg::Out(dw), Arg::U32(parts as u32), Arg::U32(d as u32)],
    })?;
    Ok(dx)
}
