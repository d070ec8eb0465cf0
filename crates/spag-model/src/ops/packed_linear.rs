//! Linear layers of generation: weights packed once, few or many rows, no row dependent on its companions.

use candle_core::{Result, Tensor, bail};

use super::product::{Panels, Start};
use super::{cpu, pool};

/// The weights of one or several linear layers that read the same input, packed for [`forward`].
pub struct PackedWeight(Panels);

impl PackedWeight {
    /// Packs `weights`, each [Oᵢ, I]; the outputs come one after another.
    ///
    /// # Errors
    /// No weights, inputs that differ, or tensors that are not contiguous f32.
    pub fn new(weights: &[&Tensor]) -> Result<Self> {
        let Some(first) = weights.first() else { bail!("packed linear: no weights") };
        let inputs = first.dim(1)?;
        if let Some(other) = weights.iter().find(|w| w.dims().get(1) != Some(&inputs)) {
            bail!("packed linear: {:?} beside {:?}", other.dims(), first.dims());
        }
        with_values(weights, &[], &|parts| Panels::pack(inputs, parts)).map(Self)
    }

    /// Width of the input.
    pub fn inputs(&self) -> usize {
        self.0.k()
    }

    /// Width of all outputs together.
    pub fn outputs(&self) -> usize {
        self.0.n()
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
/// Shapes that do not fit, or tensors that are not contiguous f32.
pub fn forward(x: &Tensor, w: &PackedWeight, residual: Option<&Tensor>) -> Result<Tensor> {
    let (n, i) = x.dims2()?;
    if i != w.inputs() {
        bail!("packed linear: x is [{n}, {i}], the weight takes {}", w.inputs());
    }
    let mut y = pool::values(n * w.outputs());
    match residual {
        None => cpu::read(x, |x| {
            w.0.product(n, x, &mut y, Start::Zero);
            Ok(())
        })?,
        Some(residual) => {
            if residual.dims() != [n, w.outputs()] {
                bail!("packed linear: the residual is {:?}, the output [{n}, {}]", residual.dims(), w.outputs());
            }
            cpu::read(residual, |residual| {
                cpu::read(x, |x| {
                    w.0.product(n, x, &mut y, Start::Of(residual));
                    Ok(())
                })
            })?;
        }
    }
    cpu::tensor(y, (n, w.outputs()))
}
