//! Reads rows of packed weights, and dequantises them.

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::{PackedWeight, Packing};
use crate::cpu;
use crate::product::Element;
use crate::quantised::QuantisedMatrix;
use crate::{embedding, pool, simd};

/// Rows `ids` of the weight, [N, I], for models with tied embeddings.
///
/// # Errors
/// A row outside the weight.
pub fn rows(ids: &[u32], w: &PackedWeight) -> Result<Tensor> {
    match &w.0 {
        Packing::Wide(panels) => gather(ids, (panels.n(), panels.k()), |id, row| panels.unpack_row(id, row)),
        Packing::Narrow(panels) => gather(ids, (panels.n(), panels.k()), |id, row| panels.unpack_row(id, row)),
        Packing::Quantised(matrix) => gather(ids, (matrix.n(), matrix.k()), |id, row| matrix.unpack_row(id, row)),
        Packing::Stack { .. } => bail!("packed linear: rows of a stack are not read"),
        Packing::QuantisedRows(_) => bail!("packed linear: rows of a quantised weight of kernels are not read"),
        Packing::Rows(rows) => embedding::forward(ids, rows),
    }
}

/// Dequantises a weight into `to`, [O, I], f32 or bf16.
///
/// # Errors
/// A weight that is not quantised, or a tensor of another shape, device or number format.
pub fn dequantise(w: &PackedWeight, to: &Tensor) -> Result<()> {
    let Packing::Quantised(matrix) = &w.0 else { bail!("dequantise: the weight is not quantised") };
    let (n, k) = (matrix.n(), matrix.k());
    if to.dims() != [n, k] {
        bail!("dequantise: [{n}, {k}] to {:?}", to.dims());
    }
    match to.dtype() {
        DType::BF16 => dequantise_as::<bf16>(matrix, to),
        _ => dequantise_as::<f32>(matrix, to),
    }
}

fn dequantise_as<T: Element>(matrix: &QuantisedMatrix, to: &Tensor) -> Result<()> {
    T::update(to, |to| {
        let k = matrix.k();
        to.par_chunks_mut(k).enumerate().for_each_init(
            || vec![0f32; k],
            |row, (index, to)| {
                matrix.unpack_row(index, row);
                simd::vectorized(
                    #[inline(always)]
                    || to.iter_mut().zip(&*row).for_each(|(to, from)| *to = T::nearest(*from)),
                );
            },
        );
        Ok(())
    })
}

/// Rows of a matrix `[n, k]` on the host.
fn gather(ids: &[u32], (n, k): (usize, usize), unpack: impl Fn(usize, &mut [f32]) + Sync) -> Result<Tensor> {
    if let Some(id) = ids.iter().find(|id| **id as usize >= n) {
        bail!("embedding: token {id} is outside the vocabulary of {n}");
    }
    let mut x = pool::values(ids.len() * k);
    x.par_chunks_mut(k.max(1)).zip(ids).for_each(|(x, id)| unpack(*id as usize, x));
    cpu::tensor(x, (ids.len(), k))
}
