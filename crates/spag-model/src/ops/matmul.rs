//! Linear layers: y = x·Wᵀ, and the two products of its backward pass, with accumulation into what is already there.
//!
//! candle's `matmul` always writes a fresh output; gradients want `+=`, which saves one pass over memory each.

use candle_core::{Result, Tensor, bail};

use super::cpu;
pub(crate) use super::product::Output;
#[cfg(target_arch = "x86_64")]
use super::product::large;
use super::product::{Side, wide};

/// A matrix inside a slice: element (i, j) lies at `i * row + j * col`.
#[derive(Clone, Copy)]
pub(crate) struct Strides {
    pub(crate) row: usize,
    pub(crate) col: usize,
}

/// How many threads one product may use.
#[derive(Clone, Copy)]
pub(crate) enum Threads {
    One,
    All,
}

/// c = [c +] a·b for strided f32 matrices, m×k by k×n.
///
/// # Safety
/// For each matrix the largest element reached, `(rows-1)*row + (cols-1)*col`, must lie inside the memory that its
/// pointer may be used for, and nothing else may use the elements of `c` meanwhile.
#[expect(clippy::too_many_arguments, reason = "the three matrices of a product with their layouts")]
pub(crate) unsafe fn gemm(
    (m, k, n): (usize, usize, usize),
    c: *mut f32,
    c_strides: Strides,
    output: Output,
    a: *const f32,
    a_strides: Strides,
    b: *const f32,
    b_strides: Strides,
    threads: Threads,
) {
    let parallelism = match threads {
        Threads::One => gemm::Parallelism::None,
        Threads::All => gemm::Parallelism::Rayon(rayon::current_num_threads()),
    };
    // SAFETY: the caller vouches for the extents; the strides are passed on unchanged.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c,
            c_strides.col as isize,
            c_strides.row as isize,
            output == Output::Accumulate,
            a,
            a_strides.col as isize,
            a_strides.row as isize,
            b,
            b_strides.col as isize,
            b_strides.row as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        )
    }
}

/// Row-major strides of a matrix with `cols` columns.
pub(crate) fn row_major(cols: usize) -> Strides {
    Strides { row: cols, col: 1 }
}

/// The transpose of a row-major matrix with `cols` columns.
pub(crate) fn transposed(cols: usize) -> Strides {
    Strides { row: 1, col: cols }
}

/// Where the matrix library finds a side with `rows` rows and `columns` columns.
fn strides(side: Side, rows: usize, columns: usize) -> Strides {
    match side {
        Side::Rows => row_major(columns),
        Side::Columns => transposed(rows),
    }
}

/// Checked product over slices: `c[m,n] = [c +] a[m,k]·b[k,n]`.
fn product(
    (m, k, n): (usize, usize, usize),
    c: &mut [f32],
    output: Output,
    a: (&[f32], Side),
    b: (&[f32], Side),
) -> Result<()> {
    if c.len() < m * n || a.0.len() < m * k || b.0.len() < k * n {
        bail!("matmul: {m}×{k} by {k}×{n} does not fit slices of {}, {} and {}", a.0.len(), b.0.len(), c.len());
    }
    #[cfg(target_arch = "x86_64")]
    if wide() {
        large::product((m, k, n), a, b, c, output);
        return Ok(());
    }
    // SAFETY: the extents were checked above; `c` is borrowed mutably.
    unsafe {
        gemm(
            (m, k, n),
            c.as_mut_ptr(),
            row_major(n),
            output,
            a.0.as_ptr(),
            strides(a.1, m, k),
            b.0.as_ptr(),
            strides(b.1, k, n),
            Threads::All,
        )
    }
    Ok(())
}

/// y = x·Wᵀ. `x` [N, I], `w` [O, I] → [N, O].
///
/// # Errors
/// Shapes that do not fit, or tensors that are not contiguous f32.
pub fn linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let ((n, i), (o, wi)) = (x.dims2()?, w.dims2()?);
    if i != wi {
        bail!("linear: x is [{n}, {i}], w is [{o}, {wi}]");
    }
    let mut y = vec![0f32; n * o];
    cpu::read(x, |x| {
        cpu::read(w, |w| product((n, i, o), &mut y, Output::Overwrite, (x, Side::Rows), (w, Side::Columns)))
    })?;
    cpu::tensor(y, (n, o))
}

/// dx = Σ dyᵢ·Wᵢ over the layers that read the same input. Each `dy` [N, O], `w` [O, I] → [N, I].
///
/// # Errors
/// Shapes that do not fit, no layer at all, or tensors that are not contiguous f32.
pub fn linear_backward_input(layers: &[(&Tensor, &Tensor)]) -> Result<Tensor> {
    let Some((dy, w)) = layers.first() else { bail!("linear backward: no layers") };
    let (n, i) = (dy.dim(0)?, w.dim(1)?);
    let mut dx = vec![0f32; n * i];
    for (index, (dy, w)) in layers.iter().enumerate() {
        let ((dn, o), (wo, wi)) = (dy.dims2()?, w.dims2()?);
        if dn != n || wo != o || wi != i {
            bail!("linear backward: dy is [{dn}, {o}], w is [{wo}, {wi}], expected [{n}, _] and [_, {i}]");
        }
        let output = if index == 0 { Output::Overwrite } else { Output::Accumulate };
        cpu::read(dy, |dy| {
            cpu::read(w, |w| product((n, o, i), &mut dx, output, (dy, Side::Rows), (w, Side::Rows)))
        })?;
    }
    cpu::tensor(dx, (n, i))
}

/// dW += dyᵀ·x, in place. `dy` [N, O], `x` [N, I], `dw` [O, I].
///
/// # Errors
/// Shapes that do not fit, or tensors that are not contiguous f32.
pub fn linear_backward_weight(dy: &Tensor, x: &Tensor, dw: &Tensor) -> Result<()> {
    let ((n, o), (xn, i)) = (dy.dims2()?, x.dims2()?);
    if xn != n || dw.dims() != [o, i] {
        bail!("linear backward: dy is [{n}, {o}], x is [{xn}, {i}], dw is {:?}", dw.dims());
    }
    cpu::read(dy, |dy| {
        cpu::read(x, |x| {
            cpu::update(dw, |dw| product((o, n, i), dw, Output::Accumulate, (dy, Side::Columns), (x, Side::Rows)))
        })
    })
}

/// Fewest rows for which [`linear_invariant`] lets the product run unpadded; below, the library takes other paths.
const MIN_ROWS: usize = 4;

/// [`linear`] whose rows do not depend on how many rows there are.
///
/// Our AVX-512 product keeps that promise by itself. The matrix library sums small products in another order (a vector
/// path for one row, a dot-product path for outputs of up to 256 elements, another depth of blocking for outputs of up
/// to 64×64); for it, few rows are padded with zero rows until the general path is taken.
///
/// # Errors
/// As [`linear`].
pub fn linear_invariant(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (n, o) = (x.dim(0)?, w.dim(0)?);
    let least = if o <= 64 { 65 } else { MIN_ROWS.max(256 / o + 1) };
    if wide() || n >= least {
        return linear(x, w);
    }
    let padded = x.pad_with_zeros(0, 0, least - n)?.contiguous()?;
    linear(&padded, w)?.narrow(0, 0, n)
}
