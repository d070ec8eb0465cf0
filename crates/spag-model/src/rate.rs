//! How fast this processor multiplies, for plans.

use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};

use crate::config::ModelConfig;
use crate::error::Result;

/// Rows of the measured products: tokens of a micro-batch.
const ROWS: usize = 512;
/// How long products are repeated.
const TIME: Duration = Duration::from_millis(300);
/// Sizes of the measured products are at most these, so that weights of a large model need not fit.
const MAX_SIZE: usize = 4096;

/// FLOP/s that products of a block's sizes reach on this processor, in f32 and with all threads. Takes a third of a second.
///
/// # Errors
/// There is no memory for the matrices.
pub fn measured_flops(config: &ModelConfig) -> Result<f64> {
    let model = &config.architecture;
    let (inputs, outputs) = (model.hidden_size.min(MAX_SIZE), model.intermediate_size.min(MAX_SIZE));
    let x = Tensor::ones((ROWS, inputs), DType::F32, &Device::Cpu)?;
    let w = Tensor::ones((outputs, inputs), DType::F32, &Device::Cpu)?;
    // The first product starts threads and gets memory.
    spag_ops::matmul::linear(&x, &w)?;
    let (start, mut products) = (Instant::now(), 0.0);
    while start.elapsed() < TIME {
        spag_ops::matmul::linear(&x, &w)?;
        products += 1.0;
    }
    Ok(products * 2.0 * (ROWS * inputs * outputs) as f64 / start.elapsed().as_secs_f64())
}
