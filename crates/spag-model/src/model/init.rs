//! Random initial weights: normal with the configuration's standard deviation; norm weights are one, biases zero.
//!
//! All matrices draw from one random stream. Each pair of numbers consumes four words, so the position of every
//! element in the stream is known. Tensors can be drawn individually, and parts of a tensor in parallel.

use candle_core::{Device, Tensor};
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::config::ModelConfig;
use crate::error::Result;
use crate::params::{FlatBuffers, Initial, Layout, View};
use spag_ops::cpu;

/// Words of the stream per pair of numbers: two f64 of two words each.
const WORDS_PER_PAIR: u128 = 4;
/// Numbers drawn per task; even, so that pairs stay together.
const SHARE: usize = 1 << 16;

/// Draws all parameters from `seed`. The same seed gives the same weights on every machine.
pub(crate) fn random(config: &ModelConfig, layout: &Layout, seed: u64) -> Result<FlatBuffers> {
    let buffers = FlatBuffers::zeros(layout, &Device::Cpu)?;
    let weights = RandomWeights::new(layout, config, seed);
    for (l, layer) in layout.layers.iter().enumerate() {
        for v in 0..layer.views.len() {
            cpu::update(&buffers.view(l, v)?, |values| {
                weights.fill(l, v, values);
                Ok(())
            })?;
        }
    }
    Ok(buffers)
}

/// Random weights whose tensors can be drawn in any order.
pub(crate) struct RandomWeights<'a> {
    layout: &'a Layout,
    std: f64,
    /// The initial weight of norms, which makes them neutral.
    norms: f32,
    seed: u64,
    /// Index of each view's first pair in the stream, by layer.
    first_pairs: Vec<Vec<u128>>,
}

impl<'a> RandomWeights<'a> {
    pub(crate) fn new(layout: &'a Layout, config: &ModelConfig, seed: u64) -> Self {
        let (std, norms) = (config.initializer_range, 1.0 - config.architecture.norm_weights.offset());
        let mut pairs = 0;
        let mut first = |view: &View| {
            let first = pairs;
            if view.part.initial() == Initial::Normal {
                // The last number of an odd count consumes a whole pair.
                pairs += view.len().div_ceil(2) as u128;
            }
            first
        };
        let first_pairs = layout.layers.iter().map(|layer| layer.views.iter().map(&mut first).collect()).collect();
        Self { layout, std, norms, seed, first_pairs }
    }

    /// Draws one tensor, f32.
    pub(crate) fn tensor(&self, layer: usize, view: usize) -> Result<Tensor> {
        let at = &self.layout.layers[layer].views[view];
        let mut values = vec![0.0; at.len()];
        self.fill(layer, view, &mut values);
        Ok(cpu::tensor(values, at.shape.as_slice())?)
    }

    fn fill(&self, layer: usize, view: usize, values: &mut [f32]) {
        match self.layout.layers[layer].views[view].part.initial() {
            Initial::Ones => return values.fill(self.norms),
            Initial::Zeros => return values.fill(0.0),
            Initial::Normal => {}
        }
        let first = self.first_pairs[layer][view];
        values.par_chunks_mut(SHARE).enumerate().for_each(|(share, values)| {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
            rng.set_word_pos((first + (share * SHARE / 2) as u128) * WORDS_PER_PAIR);
            for pair in values.chunks_mut(2) {
                // Box–Muller on two uniform numbers; 1 - u keeps the logarithm finite.
                let (u1, u2): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
                let radius = (-2.0 * u1.ln()).sqrt() * self.std;
                let (sin, cos) = (std::f64::consts::TAU * u2).sin_cos();
                for (value, part) in pair.iter_mut().zip([cos, sin]) {
                    *value = (radius * part) as f32;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws all tensors sequentially from one stream.
    fn in_turn(layout: &Layout, std: f64, seed: u64) -> Vec<Vec<f32>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |view: &View| {
            let mut values = vec![1.0; view.len()];
            for pair in values.chunks_mut(2).filter(|_| view.shape.len() > 1) {
                let (u1, u2): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
                let radius = (-2.0 * u1.ln()).sqrt() * std;
                let (sin, cos) = (std::f64::consts::TAU * u2).sin_cos();
                for (value, part) in pair.iter_mut().zip([cos, sin]) {
                    *value = (radius * part) as f32;
                }
            }
            values
        };
        layout.layers.iter().flat_map(|layer| &layer.views).map(&mut draw).collect()
    }

    /// Includes matrices with an odd number of elements, and one drawn by several threads.
    #[test]
    fn tensors_drawn_alone_equal_tensors_drawn_in_sequence() {
        let config: ModelConfig = serde_json::from_str(
            r#"{"hidden_size": 22, "intermediate_size": 31, "vocab_size": 10001, "num_hidden_layers": 2,
                "num_attention_heads": 11, "num_key_value_heads": 1, "initializer_range": 0.03}"#,
        )
        .unwrap();
        let mut layout = Layout::new(&config.architecture);
        // No layer of this architecture is odd, because the head size is even; the stream must not depend on that.
        for view in layout.layers.iter_mut().flat_map(|layer| &mut layer.views).filter(|view| view.shape.len() == 2) {
            view.shape[0] |= 1;
            view.shape[1] -= 1;
        }
        assert!(layout.layers.iter().flat_map(|layer| &layer.views).any(|view| view.len() % 2 == 1));
        let expected = in_turn(&layout, config.initializer_range, 7);
        let weights = RandomWeights::new(&layout, &config, 7);
        let mut expected = expected.iter();
        for (l, layer) in layout.layers.iter().enumerate() {
            for v in 0..layer.views.len() {
                let found = weights.tensor(l, v).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
                assert!(found == *expected.next().unwrap(), "{}", layer.views[v].name);
            }
        }
    }
}
