//! Rotations by the kernels of `rope.cu`.

use candle_core::{Result, Tensor};

use super::{Direction, Positions, RopeTable};
use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix};
use crate::ops::elements::{THREADS, in_vector};

const MODULE: Module = module!("rope");

pub(super) fn rotate(
    kernels: &dyn Kernels,
    x: &Tensor,
    columns: usize,
    positions: &Positions,
    table: &RopeTable,
    direction: Direction,
) -> Result<()> {
    let (n, width) = x.dims2()?;
    let positions = positions.on(x.device())?;
    let (cos, sin) = table.on(x.device())?;
    let (half, pairs) = (table.half, columns / 2);
    let vector = in_vector(x.dtype());
    let (each, how) = if half.is_multiple_of(vector) { (vector, "vectors") } else { (1, "single") };
    let threads = pairs.div_ceil(each) as u32;
    let block = threads.next_multiple_of(32).clamp(32, THREADS);
    let sign = match direction {
        Direction::Forward => 1.0,
        Direction::Backward => -1.0,
    };
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("rope_{how}_{}", suffix(x.dtype())?),
        grid: [n as u32, threads.div_ceil(block), 1],
        block,
        shared_bytes: 0,
        args: &[
            Arg::Out(x),
            Arg::In(&positions),
            Arg::In(&cos),
            Arg::In(&sin),
            Arg::U32(width as u32),
            Arg::U32(pairs as u32),
            Arg::U32(half as u32),
            Arg::F32(sign),
        ],
    })
}
