//! Rounding by the kernel of `cast.cu`.

use candle_core::{DType, Result, Tensor, bail};

use crate::kernels::{Arg, Kernels, Launch, Module, module};
use crate::ops::elements::{THREADS, blocks, in_vector};

const MODULE: Module = module!("cast");

pub(super) fn round_into(kernels: &dyn Kernels, wide: &Tensor, narrow: &Tensor) -> Result<()> {
    if (wide.dtype(), narrow.dtype()) != (DType::F32, DType::BF16) {
        bail!("rounding {:?} into {:?}; f32 into bf16 is expected", wide.dtype(), narrow.dtype());
    }
    let count = wide.elem_count();
    kernels.launch(&Launch {
        module: MODULE,
        kernel: "cast_round_into".into(),
        grid: [blocks(count, in_vector(DType::BF16))?, 1, 1],
        block: THREADS,
        shared_bytes: 0,
        args: &[Arg::In(wide), Arg::Out(narrow), Arg::U64(count as u64)],
    })
}
