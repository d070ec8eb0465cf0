//! Measures the matrix product speed of this processor, for the planner.

use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};

use crate::config::ModelConfig;
use crate::error::Result;

/// Rows of the measured products: tokens of a micro-batch.
const ROWS: usize = 512;
/// Duration of the measurement.
const TIME: Duration = Duration::from_millis(300);
/// Maximum sizes of the measured products, so that weights of a large model need not fit.
const MAX_SIZE: usize = 4096;

/// FLOP/s of products of a block's sizes on this processor, in f32 with all threads. Takes a third of a second.
///
/// # Errors
/// Out of memory for the matrices.
pub fn measured_flops(config: &ModelConfig) -> Result<f64> {
    let model = &config.architecture;
    let (inputs, outputs) = (model.hidden_size.min(MAX_SIZE), model.intermediate_size.min(MAX_SIZE));
    let x = Tensor::ones((ROWS, inputs), DType::F32, &Device::Cpu)?;
    let w = Tensor::ones((outputs, inputs), DType::F32, &Device::Cpu)?;
    // Warm-up: starts threads and allocates memory.
    spag_ops::matmul::linear(&x, &w)?;
    let (start, mut products) = (Instant::now(), 0.0);
    while start.elapsed() < TIME {
        spag_ops::matmul::linear(&x, &w)?;
        products += 1.0;
    }
    Ok(products * 2.0 * (ROWS * inputs * outputs) as f64 / start.elapsed().as_secs_f64())
}
