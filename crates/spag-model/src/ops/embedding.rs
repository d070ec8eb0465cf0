//! The embedding: a row of the table for each token, and its gradient scattered back.

mod device;

use candle_core::{DType, Result, Tensor, bail};
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::{cpu, pool};
use crate::kernels;

fn check(ids: &[u32], table: &Tensor) -> Result<(usize, usize)> {
    let (v, d) = table.dims2()?;
    if let Some(id) = ids.iter().find(|id| **id as usize >= v) {
        bail!("embedding: token {id} is outside the vocabulary of {v}");
    }
    Ok((v, d))
}

/// Rows `ids` of `table` [V, D], f32 or bf16 → [N, D], f32; of the table's number format where kernels do it.
///
/// # Errors
/// A token outside the vocabulary, or a table that is not contiguous.
pub fn forward(ids: &[u32], table: &Tensor) -> Result<Tensor> {
    let (_, d) = check(ids, table)?;
    if let Some(kernels) = kernels::of(table.device())? {
        return device::forward(&*kernels, ids, table);
    }
    let mut x = pool::values(ids.len() * d);
    let rows = x.par_chunks_mut(d.max(1)).zip(ids.par_iter().map(|id| *id as usize * d));
    match table.dtype() {
        DType::BF16 => cpu::read_bf16(table, |table| {
            rows.for_each(|(x, at)| table[at..at + d].convert_to_f32_slice(x));
            Ok(())
        })?,
        _ => cpu::read(table, |table| {
            rows.for_each(|(x, at)| x.copy_from_slice(&table[at..at + d]));
            Ok(())
        })?,
    }
    cpu::tensor(x, (ids.len(), d))
}

/// Adds row n of `dx` [N, D] to row `ids[n]` of `dtable` [V, D], in place.
///
/// Tokens are sorted by id, so that rows of the table are summed side by side without locks and in a fixed order.
///
/// # Errors
/// A token outside the vocabulary, shapes that do not fit, or tensors that are not contiguous f32 (for kernels, `dx` may
/// be bf16, and `dtable` as well).
pub fn backward(ids: &[u32], dx: &Tensor, dtable: &Tensor) -> Result<()> {
    let (_, d) = check(ids, dtable)?;
    if dx.dims() != [ids.len(), d] {
        bail!("embedding backward: dx is {:?}, expected [{}, {d}]", dx.dims(), ids.len());
    }
    if let Some(kernels) = kernels::of(dx.device())? {
        return device::backward(&*kernels, ids, dx, dtable);
    }
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|n| ids[*n]);
    cpu::read(dx, |dx| {
        cpu::update(dtable, |dtable| {
            // One task a run of equal ids; each owns its row of the table.
            let runs: Vec<&[usize]> = order.chunk_by(|a, b| ids[*a] == ids[*b]).collect();
            let mut rows: Vec<(&mut [f32], &[usize])> = Vec::with_capacity(runs.len());
            let (mut rest, mut taken) = (dtable, 0);
            for run in runs {
                let id = ids[run[0]] as usize;
                let (_, tail) = rest.split_at_mut((id - taken) * d);
                let (row, tail) = tail.split_at_mut(d);
                rows.push((row, run));
                (rest, taken) = (tail, id + 1);
            }
            rows.into_par_iter().for_each(|(row, run)| {
                for n in run {
                    for (t, g) in row.iter_mut().zip(&dx[n * d..(n + 1) * d]) {
                        *t += g;
                    }
                }
            });
            Ok(())
        })
    })
}
