//! Linear layers for generation, with packed weights. A row's result does not depend on the other rows.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::product::{Element, Panels, Start};
use super::{cpu, embedding, matmul, pool};
use crate::kernels;

/// Packed weights of a linear layer, or of several layers with the same input.
pub struct PackedWeight(Packing);

enum Packing {
    /// Packed for the CPU.
    Wide(Panels<f32>),
    /// Packed for the CPU, which widens the weights as it multiplies.
    Narrow(Panels<bf16>),
    /// For kernels: [O, I], sharing the weight's memory.
    Rows(Tensor),
}

impl PackedWeight {
    /// Packs `weight`, [O, I]. Layers with the same input are stacked into one weight.
    ///
    /// # Errors
    /// A tensor that is not contiguous, or neither f32 nor bf16.
    pub fn new(weight: &Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        if kernels::of(weight.device())?.is_some() {
            return Ok(Self(Packing::Rows(weight.clone())));
        }
        let extents = (outputs, inputs);
        Ok(Self(match weight.dtype() {
            DType::BF16 => Packing::Narrow(cpu::read_bf16(weight, |values| Ok(Panels::pack(extents, values)))?),
            _ => Packing::Wide(cpu::read(weight, |values| Ok(Panels::pack(extents, values)))?),
        }))
    }

    /// As [`PackedWeight::new`], for views of one memory: on a CPU in that memory, if the rows of all fill whole panels. All
    /// views of the memory become empty.
    ///
    /// # Errors
    /// As [`PackedWeight::new`].
    pub(crate) fn in_place(weights: &[Tensor]) -> Result<Vec<Self>> {
        let Some(first) = weights.first() else { return Ok(Vec::new()) };
        let extents = weights.iter().map(Tensor::dims2).collect::<Result<Vec<_>>>()?;
        if kernels::of(first.device())?.is_some() || !extents.iter().all(|(outputs, _)| Self::fits_in_place(*outputs)) {
            return weights.iter().map(Self::new).collect();
        }
        let ranges = weights.iter().map(cpu::range).collect::<Result<Vec<_>>>()?;
        Ok(match first.dtype() {
            DType::BF16 => pack_shared(cpu::take_bf16(first)?, &extents, &ranges, Packing::Narrow),
            _ => pack_shared(cpu::take(first)?, &extents, &ranges, Packing::Wide),
        })
    }

    /// Whether a weight of `outputs` rows can be packed in its own memory.
    pub(crate) fn fits_in_place(outputs: usize) -> bool {
        Panels::<f32>::fit_in_place(outputs)
    }

    /// Input size.
    pub fn inputs(&self) -> usize {
        match &self.0 {
            Packing::Wide(panels) => panels.k(),
            Packing::Narrow(panels) => panels.k(),
            Packing::Rows(rows) => rows.dims()[1],
        }
    }

    /// Output size.
    pub fn outputs(&self) -> usize {
        match &self.0 {
            Packing::Wide(panels) => panels.n(),
            Packing::Narrow(panels) => panels.n(),
            Packing::Rows(rows) => rows.dims()[0],
        }
    }
}

/// Packs the matrices at `ranges` of `values`, in place.
fn pack_shared<T: Element>(
    mut values: Vec<T>,
    extents: &[(usize, usize)],
    ranges: &[Range<usize>],
    packing: fn(Panels<T>) -> Packing,
) -> Vec<PackedWeight> {
    for (extents, range) in extents.iter().zip(ranges) {
        Panels::pack_in_place(*extents, &mut values[range.clone()]);
    }
    let values = Arc::new(values);
    let panels = |(extents, range): (&_, &Range<usize>)| Panels::of_packed(*extents, values.clone(), range.start);
    extents.iter().zip(ranges).map(panels).map(|panels| PackedWeight(packing(panels))).collect()
}

/// Rows `ids` of the weight, [N, I]: the embedding of a model whose output head is the same matrix.
///
/// # Errors
/// A row outside the weight.
pub fn rows(ids: &[u32], w: &PackedWeight) -> Result<Tensor> {
    fn gather<T: Element>(ids: &[u32], panels: &Panels<T>) -> Result<Tensor> {
        if let Some(id) = ids.iter().find(|id| **id as usize >= panels.n()) {
            bail!("embedding: token {id} is outside the vocabulary of {}", panels.n());
        }
        let mut x = pool::values(ids.len() * panels.k());
        x.par_chunks_mut(panels.k().max(1)).zip(ids).for_each(|(x, id)| panels.unpack_row(*id as usize, x));
        cpu::tensor(x, (ids.len(), panels.k()))
    }
    match &w.0 {
        Packing::Wide(panels) => gather(ids, panels),
        Packing::Narrow(panels) => gather(ids, panels),
        Packing::Rows(rows) => embedding::forward(ids, rows),
    }
}

/// y = [residual +] x·Wᵀ. `x` [N, I] → [N, O]; `residual` [N, O].
///
/// # Errors
/// Mismatched shapes, tensors that are not contiguous f32 (kernels also accept bf16), or a weight that was packed for
/// another device.
pub fn forward(x: &Tensor, w: &PackedWeight, residual: Option<&Tensor>) -> Result<Tensor> {
    let (n, i) = x.dims2()?;
    if i != w.inputs() {
        bail!("packed linear: x is [{n}, {i}], the weight takes {}", w.inputs());
    }
    match (&w.0, residual) {
        (Packing::Wide(panels), _) => on_host(x, panels, residual),
        (Packing::Narrow(panels), _) => on_host(x, panels, residual),
        (Packing::Rows(rows), None) => matmul::linear(x, rows),
        (Packing::Rows(rows), Some(residual)) => matmul::linear_add(residual, x, rows),
    }
}

/// y = x·Wᵀ in f32 for every number format, for log-probabilities: bf16 would leave them two digits.
///
/// # Errors
/// As [`forward`].
pub fn forward_f32(x: &Tensor, w: &PackedWeight) -> Result<Tensor> {
    match (&w.0, kernels::of(x.device())?) {
        (Packing::Rows(rows), Some(kernels)) if x.dims2()?.1 == w.inputs() => {
            matmul::launch_linear(&*kernels, x, rows, DType::F32)
        }
        _ => forward(x, w, None),
    }
}

fn on_host<T: Element>(x: &Tensor, panels: &Panels<T>, residual: Option<&Tensor>) -> Result<Tensor> {
    if kernels::of(x.device())?.is_some() {
        bail!("packed linear: the weight was packed for the CPU");
    }
    let (rows, columns) = (x.dims()[0], panels.n());
    let mut y = pool::values(rows * columns);
    match residual {
        None => cpu::read(x, |x| {
            panels.product(rows, x, &mut y, Start::Zero);
            Ok(())
        })?,
        Some(residual) => {
            if residual.dims() != [rows, columns] {
                bail!("packed linear: the residual is {:?}, the output [{rows}, {columns}]", residual.dims());
            }
            cpu::read(residual, |residual| {
                cpu::read(x, |x| {
                    panels.product(rows, x, &mut y, Start::Of(residual));
                    Ok(())
                })
            })?;
        }
    }
    cpu::tensor(y, (rows, columns))
}
