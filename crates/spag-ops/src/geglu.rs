//! GeGLU: y = gelu(gate)·up, with the tanh approximation of gelu, as in Gemma.

use super::glu::Gate;
use super::simd;
use crate::kernels::{Module, module};

/// 2·√(2/π).
const TWICE_ROOT: f32 = 1.595_769;
/// The factor of the cubic term.
const CUBIC: f32 = 0.044_715;

/// z such that gelu(g) = g·(1 + tanh(z/2))/2 = g·sigmoid(z).
#[inline(always)]
fn argument(g: f32) -> f32 {
    TWICE_ROOT * (g + CUBIC * g * g * g)
}

/// gelu(g) = g·(1 + tanh(z/2))/2, z as in [`argument`].
pub(super) struct TanhGelu;

impl Gate for TanhGelu {
    const MODULE: Module = module!("geglu");

    #[inline(always)]
    fn value(g: f32) -> f32 {
        g * simd::sigmoid(argument(g))
    }

    #[inline(always)]
    fn value_and_slope(g: f32) -> (f32, f32) {
        let s = simd::sigmoid(argument(g));
        let gelu = g * s;
        (gelu, s + gelu * (1.0 - s) * (TWICE_ROOT * (1.0 + 3.0 * CUBIC * g * g)))
    }
}
