//! Matrix products with cuBLAS numerics: f32 accumulation, rounded once.

use candle_core::{DType, Result, Tensor};
use spag_ops::kernels::{Accumulate, Gemm, Operand, Orientation};

use crate::bytes;

fn side(operand: &Operand<'_>) -> Result<Tensor> {
    let wide = operand.tensor.to_dtype(DType::F32)?;
    match operand.orientation {
        Orientation::Normal => Ok(wide),
        Orientation::Transposed => wide.t(),
    }
}

pub(crate) fn run(gemm: &Gemm<'_>) -> Result<()> {
    let (m, k, n) = gemm.extents()?;
    if m * n == 0 {
        return Ok(());
    }
    let product = match k {
        0 => Tensor::zeros((m, n), DType::F32, gemm.c.device())?,
        _ => side(&gemm.a)?.matmul(&side(&gemm.b)?)?,
    };
    let sum = match gemm.accumulate {
        Accumulate::No => product,
        Accumulate::Yes => (product + gemm.c.to_dtype(DType::F32)?)?,
    };
    bytes::write(gemm.c, &bytes::read(&sum.to_dtype(gemm.c.dtype())?.contiguous()?)?)
}
