//! Linear layers by the device's products of matrices.

use candle_core::{DType, Result, Tensor, bail};

use crate::kernels::{Accumulate, Gemm, Kernels, Operand, Orientation};

fn straight(tensor: &Tensor) -> Operand<'_> {
    Operand { tensor, orientation: Orientation::Normal }
}

fn transposed(tensor: &Tensor) -> Operand<'_> {
    Operand { tensor, orientation: Orientation::Transposed }
}

/// x·Wᵀ in the number format `dtype`: that of `x`, or f32.
pub(in crate::ops) fn linear(kernels: &dyn Kernels, x: &Tensor, w: &Tensor, dtype: DType) -> Result<Tensor> {
    let y = kernels.empty(&[x.dim(0)?, w.dim(0)?], dtype)?;
    kernels.gemm(&Gemm { a: straight(x), b: transposed(w), c: &y, accumulate: Accumulate::No })?;
    Ok(y)
}

pub(super) fn linear_add(kernels: &dyn Kernels, residual: &Tensor, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    if residual.dtype() != x.dtype() {
        bail!("linear: the residual is {:?}, x is {:?}", residual.dtype(), x.dtype());
    }
    let y = kernels.empty(residual.dims(), residual.dtype())?;
    kernels.copy(residual, &y)?;
    kernels.gemm(&Gemm { a: straight(x), b: transposed(w), c: &y, accumulate: Accumulate::Yes })?;
    Ok(y)
}

/// dx = Σ dyᵢ·Wᵢ, overwriting `dx` [N, I].
pub(in crate::ops) fn backward_input_into(
    kernels: &dyn Kernels,
    layers: &[(&Tensor, &Tensor)],
    dx: &Tensor,
) -> Result<()> {
    for (index, (dy, w)) in layers.iter().enumerate() {
        let accumulate = if index == 0 { Accumulate::No } else { Accumulate::Yes };
        kernels.gemm(&Gemm { a: straight(dy), b: straight(w), c: dx, accumulate })?;
    }
    Ok(())
}

pub(super) fn backward_weight(kernels: &dyn Kernels, dy: &Tensor, x: &Tensor, dw: &Tensor) -> Result<()> {
    kernels.gemm(&Gemm { a: transposed(dy), b: straight(x), c: dw, accumulate: Accumulate::Yes })
}
