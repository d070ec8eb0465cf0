//! Linear layers: y = x·Wᵀ, and the two products of the backward pass, with accumulation.
//!
//! candle's `matmul` cannot accumulate into an existing tensor, which saves a pass over memory.

pub(super) use candle_core::{DType, Result, Tensor, bail};
use half::bf16;

use super::cpu::{self, Stored as _};
use super::pool;
#[cfg(target_arch = "x86_64")]
use super::product::bf16_gemm;
use super::product::{CpuPath, Exact, RightOperand, Side, Start, ToBf16, Values, large};
use crate::kernels::{self, Accumulate, Gemm, Kernels, Operand, Orientation, SumOrder};

/// The number format of product operands on a CPU; accumulation is in f32. Kernels use the format of the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Operands in f32.
    F32,
    /// Operands rounded to bf16, nearest even.
    Bf16,
}

/// Temporary bytes per element of the right operand of a bf16 product on this CPU. Paths without bf16 instructions
/// pack it block by block.
pub fn packed_right_bytes() -> u64 {
    if CpuPath::current() >= CpuPath::Avx512Bf16 { 2 } else { 0 }
}

impl Arithmetic {
    /// The arithmetic of a layer with this weight.
    pub fn of(weight: &Tensor) -> Self {
        if weight.dtype() == DType::BF16 { Self::Bf16 } else { Self::F32 }
    }
}

/// Product of slices with bounds checks: `c[m,n] = start + a[m,k]·b[k,n]`.
pub(super) fn product(
    (m, k, n): (usize, usize, usize),
    c: &mut [f32],
    start: Start<'_>,
    a: (&[f32], Side),
    b: (&[f32], Side),
) -> Result<()> {
    if c.len() < m * n || a.0.len() < m * k || b.0.len() < k * n {
        bail!("matmul: {m}×{k} by {k}×{n} does not fit slices of {}, {} and {}", a.0.len(), b.0.len(), c.len());
    }
    large::product::<Exact<f32>, Exact<f32>>((m, k, n), a, b, c, start);
    Ok(())
}

/// `c[m,n] = start + a[m,k]·b[k,n]` with operands rounded to bf16.
fn product_bf16(
    (m, k, n): (usize, usize, usize),
    c: &mut [f32],
    start: Start<'_>,
    a: (Values<'_>, Side),
    b: RightOperand<'_>,
) -> Result<()> {
    let length = match b {
        RightOperand::Rows(values) => values.len(),
        RightOperand::Columns(values) => values.len(),
    };
    if c.len() < m * n || a.0.len() < m * k || length < k * n {
        bail!("matmul: {m}×{k} by {k}×{n} does not fit slices of {}, {length} and {}", a.0.len(), c.len());
    }
    #[cfg(target_arch = "x86_64")]
    if CpuPath::current() >= CpuPath::Avx512Bf16 {
        bf16_gemm::product(CpuPath::current(), (m, k, n), a, b, c, start);
        return Ok(());
    }
    let (extents, (a, a_side)) = ((m, k, n), a);
    let (b, b_side) = match b {
        RightOperand::Rows(values) => (values, Side::Rows),
        RightOperand::Columns(values) => (Values::Bf16(values), Side::Columns),
    };
    type Stored = Exact<bf16>;
    match (a, b) {
        (Values::F32(a), Values::F32(b)) => {
            large::product::<ToBf16, ToBf16>(extents, (a, a_side), (b, b_side), c, start);
        }
        (Values::F32(a), Values::Bf16(b)) => {
            large::product::<ToBf16, Stored>(extents, (a, a_side), (b, b_side), c, start);
        }
        (Values::Bf16(a), Values::F32(b)) => {
            large::product::<Stored, ToBf16>(extents, (a, a_side), (b, b_side), c, start);
        }
        (Values::Bf16(a), Values::Bf16(b)) => {
            large::product::<Stored, Stored>(extents, (a, a_side), (b, b_side), c, start);
        }
    }
    Ok(())
}

/// y = x·Wᵀ. `x` [N, I], `w` [O, I] → [N, O].
///
/// Mismatched shapes, or tensors that are not contiguous f32. Weights may be bf16, and then `x` too (kernels accept bf16 for
/// all).
pub fn linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_linear(&*kernels, x, w, x.dtype());
    }
    linear_from(Start::Zero, x, w)
}

/// y = residual + x·Wᵀ in one pass. `residual` [N, O].
pub fn linear_add(residual: &Tensor, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    if residual.dims() != [x.dim(0)?, w.dim(0)?] {
        bail!("linear: the residual is {:?}, x {:?}, w {:?}", residual.dims(), x.dims(), w.dims());
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_linear_add(&*kernels, residual, x, w);
    }
    cpu::read(residual, |residual| linear_from(Start::Of(residual), x, w))
}

/// y += x·Wᵀ in place. `y` [N, O].
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32. Weights can be bf16 (kernels also accept bf16 for all).
pub fn linear_onto(y: &Tensor, x: &Tensor, w: &Tensor) -> Result<()> {
    if y.dims() != [x.dim(0)?, w.dim(0)?] {
        bail!("linear: the sum is {:?}, x {:?}, w {:?}", y.dims(), x.dims(), w.dims());
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_linear_into(&*kernels, (x, w), y, (Accumulate::Yes, SumOrder::Fixed));
    }
    cpu::update(y, |y| linear_into(Start::Output, x, w, y))
}

fn linear_from(start: Start<'_>, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (n, o) = (x.dim(0)?, w.dim(0)?);
    let mut y = pool::values(n * o);
    linear_into(start, x, w, &mut y)?;
    cpu::tensor(y, (n, o))
}

fn linear_into(start: Start<'_>, x: &Tensor, w: &Tensor, y: &mut [f32]) -> Result<()> {
    let ((n, i), (o, wi)) = (x.dims2()?, w.dims2()?);
    if i != wi {
        bail!("linear: x is [{n}, {i}], w is [{o}, {wi}]");
    }
    match Arithmetic::of(w) {
        Arithmetic::F32 => {
            cpu::read(x, |x| cpu::read(w, |w| product((n, i, o), y, start, (x, Side::Rows), (w, Side::Columns))))
        }
        Arithmetic::Bf16 => Values::read(x, |x| {
            bf16::read(w, |w| product_bf16((n, i, o), y, start, (x, Side::Rows), RightOperand::Columns(w)))
        }),
    }
}

/// dx = Σ dyᵢ·Wᵢ over layers with the same input. Each `dy` [N, O], `w` [O, I] → [N, I].
///
/// # Errors
/// Mismatched shapes, no layers, or tensors that are not contiguous f32. Weights can be bf16, and then `dy` too.
pub fn linear_backward_input(layers: &[(&Tensor, &Tensor)]) -> Result<Tensor> {
    let Some((dy, w)) = layers.first() else { bail!("linear backward: no layers") };
    let (n, i) = (dy.dim(0)?, w.dim(1)?);
    if let Some(kernels) = kernels::of(dy.device())? {
        let dx = kernels.empty(&[n, i], dy.dtype())?;
        launch_backward_input_into(&*kernels, layers, &dx)?;
        return Ok(dx);
    }
    let mut dx = pool::values(n * i);
    for (index, (dy, w)) in layers.iter().enumerate() {
        let ((dn, o), (wo, wi)) = (dy.dims2()?, w.dims2()?);
        if dn != n || wo != o || wi != i {
            bail!("linear backward: dy is [{dn}, {o}], w is [{wo}, {wi}], expected [{n}, _] and [_, {i}]");
        }
        let start = if index == 0 { Start::Zero } else { Start::Output };
        match Arithmetic::of(w) {
            Arithmetic::F32 => cpu::read(dy, |dy| {
                cpu::read(w, |w| product((n, o, i), &mut dx, start, (dy, Side::Rows), (w, Side::Rows)))
            })?,
            Arithmetic::Bf16 => Values::read(dy, |dy| {
                bf16::read(w, |w| {
                    product_bf16((n, o, i), &mut dx, start, (dy, Side::Rows), RightOperand::Rows(Values::Bf16(w)))
                })
            })?,
        }
    }
    cpu::tensor(dx, (n, i))
}

/// dW = [dW +] dyᵀ·x, in place. `dy` [N, O], `x` [N, I], `dw` [O, I]. On a CPU they are multiplied in `arithmetic`, and `dw` is f32.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32. With bf16 arithmetic, `dy` and `x` can be bf16.
pub fn linear_backward_weight(
    dy: &Tensor,
    x: &Tensor,
    (dw, accumulate): (&Tensor, Accumulate),
    arithmetic: Arithmetic,
) -> Result<()> {
    let ((n, o), (xn, i)) = (dy.dims2()?, x.dims2()?);
    if xn != n || dw.dims() != [o, i] {
        bail!("linear backward: dy is [{n}, {o}], x is [{xn}, {i}], dw is {:?}", dw.dims());
    }
    if let Some(kernels) = kernels::of(dy.device())? {
        return launch_backward_weight(&*kernels, dy, x, (dw, accumulate));
    }
    let start = match accumulate {
        Accumulate::Yes => Start::Output,
        Accumulate::No => Start::Zero,
    };
    match arithmetic {
        Arithmetic::F32 => cpu::read(dy, |dy| {
            cpu::read(x, |x| {
                let product = |dw: &mut [f32]| product((o, n, i), dw, start, (dy, Side::Columns), (x, Side::Rows));
                cpu::update(dw, product)
            })
        }),
        Arithmetic::Bf16 => Values::read(dy, |dy| {
            Values::read(x, |x| {
                let x = RightOperand::Rows(x);
                cpu::update(dw, |dw| product_bf16((o, n, i), dw, start, (dy, Side::Columns), x))
            })
        }),
    }
}

// ── Kernel launches ──

fn normal(tensor: &Tensor) -> Operand<'_> {
    Operand { tensor, orientation: Orientation::Normal }
}

fn transposed(tensor: &Tensor) -> Operand<'_> {
    Operand { tensor, orientation: Orientation::Transposed }
}

/// x·Wᵀ in number format `dtype`: that of `x`, or f32.
pub(super) fn launch_linear(kernels: &dyn Kernels, x: &Tensor, w: &Tensor, dtype: DType) -> Result<Tensor> {
    let y = kernels.empty(&[x.dim(0)?, w.dim(0)?], dtype)?;
    launch_linear_into(kernels, (x, w), &y, (Accumulate::No, SumOrder::Fixed))?;
    Ok(y)
}

/// Writes [y +] x·Wᵀ to `y` [N, O].
pub(super) fn launch_linear_into(
    kernels: &dyn Kernels,
    (x, w): (&Tensor, &Tensor),
    y: &Tensor,
    (accumulate, order): (Accumulate, SumOrder),
) -> Result<()> {
    kernels.gemm(&Gemm { a: normal(x), b: transposed(w), c: y, accumulate, order })
}

fn launch_linear_add(kernels: &dyn Kernels, residual: &Tensor, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    if residual.dtype() != x.dtype() {
        bail!("linear: the residual is {:?}, x is {:?}", residual.dtype(), x.dtype());
    }
    let y = kernels.empty(residual.dims(), residual.dtype())?;
    kernels.copy(residual, &y)?;
    launch_linear_into(kernels, (x, w), &y, (Accumulate::Yes, SumOrder::Fixed))?;
    Ok(y)
}

/// dx = Σ dyᵢ·Wᵢ, overwriting `dx` [N, I].
pub(super) fn launch_backward_input_into(
    kernels: &dyn Kernels,
    layers: &[(&Tensor, &Tensor)],
    dx: &Tensor,
) -> Result<()> {
    for (index, (dy, w)) in layers.iter().enumerate() {
        let accumulate = if index == 0 { Accumulate::No } else { Accumulate::Yes };
        kernels.gemm(&Gemm { a: normal(dy), b: normal(w), c: dx, accumulate, order: SumOrder::Any })?;
    }
    Ok(())
}

fn launch_backward_weight(
    kernels: &dyn Kernels,
    dy: &Tensor,
    x: &Tensor,
    (dw, accumulate): (&Tensor, Accumulate),
) -> Result<()> {
    kernels.gemm(&Gemm { a: transposed(dy), b: normal(x), c: dw, accumulate, order: SumOrder::Any })
}
