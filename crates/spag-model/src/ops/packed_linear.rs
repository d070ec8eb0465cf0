//! Linear layers of generation: weights packed once, few or many rows, no row dependent on its companions.

use candle_core::{Result, Tensor, bail};

use super::product::{Panels, Start};
use super::{cpu, matmul, pool};
use crate::kernels;

/// The weights of one or several linear layers that read the same input, packed for [`forward`].
pub struct PackedWeight(Packing);

enum Packing {
    /// For the CPU version.
    Panels(Panels),
    /// For kernels: [O, I] as it is; one weight alone shares its memory.
    Rows(Tensor),
}

impl PackedWeight {
    /// Packs `weights`, each [Oᵢ, I]; the outputs come one after another.
    ///
    /// # Errors
    /// No weights, inputs that differ, or tensors that are not contiguous f32 (or, for kernels, bf16).
    pub fn new(weights: &[&Tensor]) -> Result<Self> {
        let Some(first) = weights.first() else { bail!("packed linear: no weights") };
        let inputs = first.dim(1)?;
        if let Some(other) = weights.iter().find(|w| w.dims().get(1) != Some(&inputs)) {
            bail!("packed linear: {:?} beside {:?}", other.dims(), first.dims());
        }
        if kernels::of(first.device())?.is_some() {
            let rows = if weights.len() == 1 { (*first).clone() } else { Tensor::cat(weights, 0)? };
            return Ok(Self(Packing::Rows(rows)));
        }
        with_values(weights, &[], &|parts| Panels::pack(inputs, parts)).map(|panels| Self(Packing::Panels(panels)))
    }

    /// Width of the input.
    pub fn inputs(&self) -> usize {
        match &self.0 {
            Packing::Panels(panels) => panels.k(),
            Packing::Rows(rows) => rows.dims()[1],
        }
    }

    /// Width of all outputs together.
    pub fn outputs(&self) -> usize {
        match &self.0 {
            Packing::Panels(panels) => panels.n(),
            Packing::Rows(rows) => rows.dims()[0],
        }
    }
}

/// The values of a weight, row by row, and its rows.
type Part<'a> = (&'a [f32], usize);

/// Calls `f` with the values of all `weights`, after those in `parts`.
fn with_values<R>(weights: &[&Tensor], parts: &[Part<'_>], f: &dyn Fn(&[Part<'_>]) -> R) -> Result<R> {
    let Some((weight, rest)) = weights.split_first() else { return Ok(f(parts)) };
    let outputs = weight.dim(0)?;
    cpu::read(weight, |values| {
        let parts: Vec<Part<'_>> = parts.iter().copied().chain([(values, outputs)]).collect();
        with_values(rest, &parts, f)
    })
}

/// y = [residual +] x·Wᵀ. `x` [N, I] → [N, O]; `residual` [N, O].
///
/// # Errors
/// Shapes that do not fit, tensors that are not contiguous f32 (or, for kernels, bf16), or a weight that was packed for
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
