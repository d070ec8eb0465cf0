//! Sums of squares by the kernels of `squared_norm.cu`.

use candle_core::{DType, Result, Tensor, bail};

use crate::kernels::{Arg, Kernels, Launch, Module, module};
use crate::ops::elements::{THREADS, blocks, in_vector};

const MODULE: Module = module!("squared_norm");
/// Blocks at most, each with a part of the sum; fixed, so that the result does not depend on the device.
const PARTS: u32 = 1024;

pub(super) fn add(kernels: &dyn Kernels, x: &Tensor, into: &Tensor) -> Result<()> {
    if x.dtype() != DType::F32 {
        bail!("squared_norm: f32 values are expected, not {:?}", x.dtype());
    }
    let count = x.elem_count();
    let parts = blocks(count, in_vector(DType::F32))?.min(PARTS);
    if parts == 0 {
        return Ok(());
    }
    let partial = kernels.empty(&[parts as usize], DType::F64)?;
    let launch = |kernel: &str, blocks: u32, args: &[Arg<'_>]| {
        kernels.launch(&Launch {
            module: MODULE,
            kernel: kernel.into(),
            grid: [blocks, 1, 1],
            block: THREADS,
            shared_bytes: THREADS as usize * size_of::<f64>(),
            args,
        })
    };
    launch("squared_norm_parts", parts, &[Arg::In(x), Arg::Out(&partial), Arg::U64(count as u64)])?;
    launch("squared_norm_add", 1, &[Arg::In(&partial), Arg::Out(into), Arg::U32(parts)])
}
