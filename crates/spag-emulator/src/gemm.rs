//! Products of matrices as cuBLAS computes them: f32 sums, rounded once.

use candle_core::{DType, Result, Tensor};
use half::bf16;
use spag_model::kernels::{Accumulate, Gemm, Operand, Orientation};

use crate::bytes;

/// Elements as f32, with their distances from row to row and from column to column.
struct Side {
    values: Vec<f32>,
    row: usize,
    column: usize,
}

fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

impl Side {
    fn of(operand: &Operand<'_>) -> Result<Self> {
        let width = operand.tensor.dim(1)?;
        let (row, column) = match operand.orientation {
            Orientation::Straight => (width, 1),
            Orientation::Transposed => (1, width),
        };
        Ok(Self { values: values(operand.tensor)?, row, column })
    }
}

pub(crate) fn run(gemm: &Gemm<'_>) -> Result<()> {
    let (m, k, n) = gemm.extents()?;
    let (a, b) = (Side::of(&gemm.a)?, Side::of(&gemm.b)?);
    let mut c = match gemm.accumulate {
        Accumulate::No => vec![0f32; m * n],
        Accumulate::Yes => values(gemm.c)?,
    };
    for i in 0..m {
        let row = &mut c[i * n..(i + 1) * n];
        let mut sums = vec![0f32; n];
        for at in 0..k {
            let left = a.values[i * a.row + at * a.column];
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += left * b.values[at * b.row + j * b.column];
            }
        }
        row.iter_mut().zip(sums).for_each(|(c, sum)| *c += sum);
    }
    match gemm.c.dtype() {
        DType::BF16 => {
            let rounded: Vec<u8> = c.iter().flat_map(|x| bf16::from_f32(*x).to_ne_bytes()).collect();
            bytes::write(gemm.c, &rounded)
        }
        _ => bytes::write(gemm.c, &c.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>()),
    }
}
