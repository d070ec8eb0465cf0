//! Linear layers for generation, with packed weights. A row's result does not depend on the other rows.

use candle_core::{Result, Tensor, bail};

use super::product::{Panels, Start};
use super::{cpu, matmul, pool};
use crate::kernels;

/// Packed weights of a linear layer, or of several layers with the same input.
pub struct PackedWeight(Packing);

enum Packing {
    /// Packed for the CPU.
    Panels(Panels),
    /// For kernels: [O, I], sharing the weight's memory.
    Rows(Tensor),
}

impl PackedWeight {
    /// Packs `weight`, [O, I]. Layers with the same input are stacked into one weight.
    ///
    /// # Errors
    /// A tensor that is not contiguous f32 (kernels also accept bf16).
    pub fn new(weight: &Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        if kernels::of(weight.device())?.is_some() {
            return Ok(Self(Packing::Rows(weight.clone())));
        }
        cpu::read(weight, |values| Ok(Self(Packing::Panels(Panels::pack(inputs, &[(values, outputs)])))))
    }

    /// Input size.
    pub fn inputs(&self) -> usize {
        match &self.0 {
            Packing::Panels(panels) => panels.k(),
            Packing::Rows(rows) => rows.dims()[1],
        }
    }

    /// Output size.
    pub fn outputs(&self) -> usize {
        match &self.0 {
            Packing::Panels(panels) => panels.n(),
            Packing::Rows(rows) => rows.dims()[0],
        }
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
    let panels = match (&w.0, residual) {
        (Packing::Panels(panels), _) => panels,
        (Packing::Rows(rows), None) => return matmul::linear(x, rows),
        (Packing::Rows(rows), Some(residual)) => return matmul::linear_add(residual, x, rows),
    };
    if kernels::of(x.device())?.is_some() {
        bail!("packed linear: the weight was packed for the CPU");
    }
    let mut y = pool::values(n * w.outputs());
    match residual {
        None => cpu::read(x, |x| {
            panels.product(n, x, &mut y, Start::Zero);
            Ok(())
        })?,
        Some(residual) => {
            if residual.dims() != [n, w.outputs()] {
                bail!("packed linear: the residual is {:?}, the output [{n}, {}]", residual.dims(), w.outputs());
            }
            cpu::read(residual, |residual| {
                cpu::read(x, |x| {
                    panels.product(n, x, &mut y, Start::Of(residual));
                    Ok(())
                })
            })?;
        }
    }
    cpu::tensor(y, (n, w.outputs()))
}
