//! cuBLAS matrix products, with column-major matrices.

use half::bf16;

use crate::memory::Region;

/// A cuBLAS handle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handle {
    /// 0 until a stream is set.
    pub(crate) stream: u64,
    pub(crate) has_workspace: bool,
}

/// Number formats of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    F64,
    Bf16,
}

impl Format {
    /// Looks up a `cudaDataType_t`.
    pub(crate) fn find(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::F32),
            1 => Some(Self::F64),
            14 => Some(Self::Bf16),
            _ => None,
        }
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
            Self::Bf16 => 2,
        }
    }

    /// # Safety
    /// A number of this format lies at the address.
    unsafe fn get(self, at: *const u8) -> f64 {
        // SAFETY: by the contract of this function; addresses may be unaligned.
        unsafe {
            match self {
                Self::F32 => f64::from(at.cast::<f32>().read_unaligned()),
                Self::F64 => at.cast::<f64>().read_unaligned(),
                Self::Bf16 => at.cast::<bf16>().read_unaligned().to_f64(),
            }
        }
    }

    /// # Safety
    /// A number of this format lies at the address, and may be written.
    unsafe fn set(self, at: *mut u8, x: f64) {
        // SAFETY: as above.
        unsafe {
            match self {
                Self::F32 => at.cast::<f32>().write_unaligned(x as f32),
                Self::F64 => at.cast::<f64>().write_unaligned(x),
                Self::Bf16 => at.cast::<bf16>().write_unaligned(bf16::from_f64(x)),
            }
        }
    }
}

/// A matrix: element (i, j) is `i + j * leading` elements from its first.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) region: Region,
    pub(crate) format: Format,
    pub(crate) leading: usize,
    pub(crate) transposed: bool,
    /// Elements from one matrix of a batch to the next.
    pub(crate) stride: usize,
}

/// Bytes of a batch of matrices.
pub(crate) fn bytes(format: Format, [rows, columns]: [usize; 2], leading: usize, stride: usize, batch: usize) -> usize {
    if rows == 0 || columns == 0 || batch == 0 {
        return 0;
    }
    (stride * (batch - 1) + leading * (columns - 1) + rows) * format.size()
}

impl Matrix {
    /// A matrix of the batch in row-major order, with `rows` × `columns` elements after transposition.
    fn rows(&self, batch: usize, rows: usize, columns: usize) -> Vec<f64> {
        let size = self.format.size();
        let first = self.region.at().wrapping_add(batch * self.stride * size);
        let at = |i: usize, j: usize| {
            let (i, j) = if self.transposed { (j, i) } else { (i, j) };
            // SAFETY: the region has the bytes of all elements; see `bytes`.
            unsafe { self.format.get(first.add((i + j * self.leading) * size)) }
        };
        (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect()
    }
}

/// c = alpha·a·b + beta·c for each of a batch, accumulated in f64.
pub(crate) fn multiply(
    (a, b, c): (&Matrix, &Matrix, &Matrix),
    [m, n, k]: [usize; 3],
    (alpha, beta): (f64, f64),
    batches: usize,
) {
    let size = c.format.size();
    for batch in 0..batches {
        let (left, right) = (a.rows(batch, m, k), b.rows(batch, k, n));
        let first = c.region.at().wrapping_add(batch * c.stride * size);
        let mut sums = vec![0f64; n];
        for i in 0..m {
            sums.fill(0.);
            for (x, row) in left[i * k..(i + 1) * k].iter().zip(right.chunks_exact(n.max(1))) {
                sums.iter_mut().zip(row).for_each(|(sum, y)| *sum += x * y);
            }
            for (j, sum) in sums.iter().enumerate() {
                let at = first.wrapping_add((i + j * c.leading) * size);
                // SAFETY: as in `Matrix::rows`; without beta the output is not read.
                unsafe {
                    let before = if beta == 0. { 0. } else { beta * c.format.get(at) };
                    c.format.set(at, alpha * sum + before);
                }
            }
        }
    }
}
