//! The two ceilings of a GPU: copy bandwidth and matrix product throughput.

use candle_core::{DType, Device, Result, Tensor};
use spag_ops::kernels::{self, Accumulate, Gemm, Operand, Orientation, SumOrder};

use crate::timed::seconds;

/// Measured ceilings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    /// Bytes read and written per second by a copy within the device's memory, ÷ 10⁹.
    pub(crate) copy_gb_per_s: f64,
    /// Operations per second of a large bf16 product by cuBLAS, ÷ 10¹².
    pub(crate) matmul_tflops: f64,
}

/// Bytes per copy: far more than the caches hold.
const COPY_BYTES: usize = 2 << 30;
/// Rows and columns of the matrices.
const SIDE: usize = 8192;

/// Measures both ceilings.
pub(crate) fn measure(device: &Device) -> Result<Ceilings> {
    let Some(kernels) = kernels::of(device)? else { candle_core::bail!("there are no kernels for {device:?}") };
    let source = Tensor::zeros(COPY_BYTES / 4, DType::F32, device)?;
    let target = kernels.empty(&[COPY_BYTES / 4], DType::F32)?;
    let copy = seconds(device, || kernels.copy(&source, &target))?;
    drop((source, target));
    // Random numbers: constants would draw less power and run faster than real products.
    let random = || Tensor::randn(0f32, 1f32, (SIDE, SIDE), device)?.to_dtype(DType::BF16);
    let (a, b, c) = (random()?, random()?, kernels.empty(&[SIDE, SIDE], DType::BF16)?);
    let side = |tensor, orientation| Operand { tensor, orientation };
    let product = Gemm {
        a: side(&a, Orientation::Normal),
        b: side(&b, Orientation::Transposed),
        c: &c,
        accumulate: Accumulate::No,
        order: SumOrder::Any,
    };
    let multiply = seconds(device, || kernels.gemm(&product))?;
    Ok(Ceilings {
        copy_gb_per_s: 2.0 * COPY_BYTES as f64 / copy / 1e9,
        matmul_tflops: 2.0 * (SIDE as f64).powi(3) / multiply / 1e12,
    })
}
