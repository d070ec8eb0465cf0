//! Random initial weights: normal with the configuration's standard deviation, norms at one.

use candle_core::{Device, Tensor};
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::LlamaConfig;
use crate::error::Result;
use crate::ops::cpu;
use crate::params::{FlatBuffers, Layout};

/// Buffers drawn from `seed`; the same seed gives the same weights on every machine.
pub(crate) fn random(config: &LlamaConfig, layout: &Layout, seed: u64) -> Result<FlatBuffers> {
    let buffers = FlatBuffers::zeros(layout, &Device::Cpu)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for (_, view) in buffers.named()? {
        fill(&view, config.initializer_range, &mut rng)?;
    }
    Ok(buffers)
}

fn fill(view: &Tensor, std: f64, rng: &mut ChaCha8Rng) -> Result<()> {
    let norm = view.dims().len() == 1;
    cpu::update(view, |values| {
        if norm {
            values.fill(1.0);
            return Ok(());
        }
        for pair in values.chunks_mut(2) {
            // Box–Muller on two uniform numbers; 1 - u keeps the logarithm finite.
            let (u1, u2): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
            let radius = (-2.0 * u1.ln()).sqrt() * std;
            let (sin, cos) = (std::f64::consts::TAU * u2).sin_cos();
            for (value, part) in pair.iter_mut().zip([cos, sin]) {
                *value = (radius * part) as f32;
            }
        }
        Ok(())
    })?;
    Ok(())
}
