//! SwiGLU: y = silu(gate)·up, elementwise (Shazeer 2020).

use candle_core::{Result, Tensor};

use super::glu::{self, Gate};
use super::simd;
use crate::kernels::{Module, module};

struct Silu;

impl Gate for Silu {
    const MODULE: Module = module!("swiglu");

    #[inline(always)]
    fn value(g: f32) -> f32 {
        g * simd::sigmoid(g)
    }

    #[inline(always)]
    fn value_and_slope(g: f32) -> (f32, f32) {
        let s = simd::sigmoid(g);
        let silu = g * s;
        (silu, s + silu * (1.0 - s))
    }
}

/// `gate` and `up` of one shape → the same shape.
///
/// # Errors
/// Different shapes, or tensors that are not contiguous f32 or bf16.
pub fn forward(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    glu::forward::<Silu>(gate, up)
}

/// As [`forward`] for `x` [N, 2F] with gate and up in adjacent columns → [N, F].
///
/// # Errors
/// An odd width, or a tensor that is not contiguous f32 (kernels also accept bf16).
pub fn forward_joined(x: &Tensor) -> Result<Tensor> {
    glu::forward_joined::<Silu>(x)
}

/// The backward pass, in place: `gate` and `up` become their gradients, and `dy` becomes the recomputed output, which
/// the following layer needs for its weight gradient.
///
/// # Errors
/// Different shapes, or tensors that are not contiguous f32; `gate` and `up` can be bf16, and on a CPU `dy` remains f32 (kernels
/// accept bf16 for all).
pub fn backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    glu::backward::<Silu>(gate, up, dy)
}
