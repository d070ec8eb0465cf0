//! Matrix products: row-major, with accumulation.

use std::fmt;

use candle_core::{Result, Tensor, bail};

/// Orientation of an operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orientation {
    /// Stored as used.
    Normal,
    /// Stored transposed.
    Transposed,
}

/// An operand of a product.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The elements, contiguous: [rows, columns], or [columns, rows] if transposed.
    pub tensor: &'a Tensor,
    /// Orientation in memory.
    pub orientation: Orientation,
}

/// c[m, n] = [c +] a[m, k]·b[k, n], accumulated in f32.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a> {
    /// Left side, f32 or bf16.
    pub a: Operand<'a>,
    /// Right side, of the same number format.
    pub b: Operand<'a>,
    /// The output, contiguous, of the operands' number format or f32.
    pub c: &'a Tensor,
    /// Whether the product is added to the output.
    pub accumulate: Accumulate,
    /// The summation order of an element.
    pub order: SumOrder,
}

/// The summation order of kernels over k in products, and over keys in paged attention. A CPU has a single order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SumOrder {
    /// Split sums, if that is faster for few rows. The split depends on the number of rows.
    #[default]
    Any,
    /// Independent of the number of rows, so that forward passes of the engine and the learner are bit-identical.
    Fixed,
}

/// Whether a product overwrites the output or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// The output is overwritten.
    No,
    /// The product is added to the output.
    Yes,
}

impl Operand<'_> {
    /// Rows and columns as used in the product.
    fn extents(&self) -> Result<(usize, usize)> {
        let (rows, columns) = self.tensor.dims2()?;
        Ok(match self.orientation {
            Orientation::Normal => (rows, columns),
            Orientation::Transposed => (columns, rows),
        })
    }
}

impl Gemm<'_> {
    /// m, k and n.
    ///
    /// # Errors
    /// Mismatched shapes or number formats, or a tensor that is not contiguous.
    pub fn extents(&self) -> Result<(usize, usize, usize)> {
        let ((m, k), (bk, n)) = (self.a.extents()?, self.b.extents()?);
        let formats = self.a.tensor.dtype() == self.b.tensor.dtype()
            && (self.c.dtype() == self.a.tensor.dtype() || self.c.dtype() == candle_core::DType::F32);
        let contiguous = [self.a.tensor, self.b.tensor, self.c].iter().all(|t| t.is_contiguous());
        if k != bk || self.c.dims() != [m, n] || !formats || !contiguous {
            bail!("{self}: shapes or number formats do not fit");
        }
        Ok((m, k, n))
    }
}

impl fmt::Display for Gemm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |o: &Operand<'_>| format!("{:?} {:?} {:?}", o.tensor.dtype(), o.tensor.dims(), o.orientation);
        write!(f, "gemm {} by {} into {:?} {:?}", side(&self.a), side(&self.b), self.c.dtype(), self.c.dims())
    }
}
