//! The kernel for products of few rows with weights in bf16, such as those of decoding few games.

use candle_core::{DType, Result, Tensor, bail};

use crate::kernels::{Accumulate, Arg, Kernels, Launch, Module, THREADS, module, vector_len};

/// The most rows that the kernel multiplies: the columns of a product of tensor cores.
const MAX_ROWS: usize = 8;
/// Outputs of a block.
const OUTPUTS: usize = 16;

/// Whether the kernel computes x·Wᵀ, for `x` [N, I] and `w` [O, I]: bf16 in whole vectors of 16 bytes, and at most 8 rows.
pub(super) fn computes(x: &Tensor, w: &Tensor) -> bool {
    let vector = vector_len(DType::BF16);
    let lies_well = |tensor: &Tensor| {
        let begin = tensor.layout().contiguous_offsets().map(|(begin, _)| begin);
        tensor.dtype() == DType::BF16 && begin.is_some_and(|begin| begin.is_multiple_of(vector))
    };
    let [n, i] = x.dims() else { return false };
    (1..=MAX_ROWS).contains(n) && *i > 0 && i.is_multiple_of(vector) && lies_well(x) && lies_well(w)
}

/// Writes [y +] x·Wᵀ to `y` [N, O], bf16, or x·Wᵀ to an f32 `y`. A row's result depends neither on the other rows nor on its place.
///
/// # Errors
/// Mismatched shapes, or a failure of the device.
pub(super) fn launch(
    kernels: &dyn Kernels,
    (x, w): (&Tensor, &Tensor),
    y: &Tensor,
    accumulate: Accumulate,
) -> Result<()> {
    let ((n, i), (o, wi)) = (x.dims2()?, w.dims2()?);
    if i != wi || y.dims() != [n, o] || accumulate == Accumulate::Yes && y.dtype() != DType::BF16 {
        bail!("packed linear: x is [{n}, {i}], the weight [{o}, {wi}], the output {:?} {:?}", y.dtype(), y.dims());
    }
    let residual = if accumulate == Accumulate::Yes { Arg::In(y) } else { Arg::Null };
    let (narrow, wide) = if y.dtype() == DType::BF16 { (Arg::Out(y), Arg::Null) } else { (Arg::Null, Arg::Out(y)) };
    kernels.launch(&Launch {
        kernel: "packed_linear_gemv_bf16".into(),
        grid: [o.div_ceil(OUTPUTS) as u32, 1, 1],
        shared_bytes: THREADS as usize / 32 * OUTPUTS * MAX_ROWS * size_of::<f32>(),
        args: &[
            Arg::In(w),
            Arg::In(x),
            residual,
            narrow,
            wide,
            Arg::U32(o as u32),
            Arg::U32(i as u32),
            Arg::U32(n as u32),
        ],
        ..Launch::of(MODULE)
    })
}

// ── Kernel launches ──

const MODULE: Module = module!("packed_linear_gemv");
