//! SwiGLU by the kernels of `swiglu.cu`.

use candle_core::{Result, Tensor, bail};

use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix};
use crate::ops::elements::{THREADS, blocks, in_vector};

const MODULE: Module = module!("swiglu");

fn check(tensors: &[&Tensor]) -> Result<()> {
    match tensors.windows(2).find(|pair| pair[0].dtype() != pair[1].dtype()) {
        Some(pair) => bail!("swiglu: {:?} beside {:?}", pair[0].dtype(), pair[1].dtype()),
        None => Ok(()),
    }
}

pub(super) fn forward(kernels: &dyn Kernels, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    check(&[gate, up])?;
    let y = kernels.empty(gate.dims(), gate.dtype())?;
    let count = gate.elem_count();
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("swiglu_forward_{}", suffix(gate.dtype())?),
        grid: [blocks(count, in_vector(gate.dtype()))?, 1, 1],
        block: THREADS,
        shared_bytes: 0,
        args: &[Arg::In(gate), Arg::In(up), Arg::Out(&y), Arg::U64(count as u64)],
    })?;
    Ok(y)
}

pub(super) fn forward_joined(kernels: &dyn Kernels, x: &Tensor) -> Result<Tensor> {
    let (n, width) = x.dims2()?;
    let f = width / 2;
    let y = kernels.empty(&[n, f], x.dtype())?;
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("swiglu_forward_joined_{}", suffix(x.dtype())?),
        grid: [n as u32, blocks(f, in_vector(x.dtype()))?, 1],
        block: THREADS,
        shared_bytes: 0,
        args: &[Arg::In(x), Arg::Out(&y), Arg::U32(f as u32)],
    })?;
    Ok(y)
}

pub(super) fn backward(kernels: &dyn Kernels, gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    check(&[gate, up, dy])?;
    let count = gate.elem_count();
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("swiglu_backward_{}", suffix(gate.dtype())?),
        grid: [blocks(count, in_vector(gate.dtype()))?, 1, 1],
        block: THREADS,
        shared_bytes: 0,
        args: &[Arg::Out(gate), Arg::Out(up), Arg::Out(dy), Arg::U64(count as u64)],
    })
}
