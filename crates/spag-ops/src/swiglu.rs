//! SwiGLU: y = silu(gate)·up.

use super::glu::Gate;
use super::simd;
use crate::kernels::{Module, module};

/// silu(g) = g·sigmoid(g).
pub(super) struct Silu;

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
