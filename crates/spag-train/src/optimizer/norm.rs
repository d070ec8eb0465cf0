//! Clipping by the global gradient norm.

use candle_core::{DType, Device, Tensor};
use spag_model::dtype::WeightDtype;
use spag_model::params::FlatBuffers;
use spag_ops::squared_norm::squared_norm_into;

use crate::error::Result;

/// The global norm of all gradients. Waits for the device once.
///
/// # Errors
/// An error of the device.
pub fn global_norm(gradients: &FlatBuffers) -> Result<f64> {
    Ok(squared_norm(gradients.layers())?.sqrt())
}

/// The sum of the squares of all elements. Waits for the device once.
pub(crate) fn squared_norm(layers: &[Tensor]) -> Result<f64> {
    let sum = Tensor::zeros(1, DType::F64, layers.first().map_or(&Device::Cpu, Tensor::device))?;
    squared_norm_into(layers, &sum)?;
    Ok(sum.to_vec1::<f64>()?[0])
}

/// The factor that scales `norm` down to `max_norm`, as torch's `clip_grad_norm_` computes it; a `max_norm` of 0 disables
/// clipping.
pub(crate) fn clip_factor(norm: f64, max_norm: f64) -> f64 {
    if max_norm > 0.0 { (max_norm / (norm + 1e-6)).min(1.0) } else { 1.0 }
}

/// Whether gradients of this norm are finite and stay so if they are rounded to `dtype`. No element is larger than the norm.
pub(crate) fn stays_finite(norm: f64, dtype: WeightDtype) -> bool {
    norm <= match dtype {
        WeightDtype::F32 => f64::MAX,
        // The largest number of bf16.
        WeightDtype::Bf16 => f64::from(f32::from_bits(0x7f7f_0000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_round_to_infinity_are_not_finite() {
        for x in [0.0, f32::from_bits(0x7f7f_0000), f32::MAX, f32::INFINITY, f32::NAN] {
            assert_eq!(stays_finite(x.into(), WeightDtype::F32), x.is_finite(), "{x}");
            assert_eq!(stays_finite(x.into(), WeightDtype::Bf16), half::bf16::from_f32(x).is_finite(), "{x}");
        }
    }
}
