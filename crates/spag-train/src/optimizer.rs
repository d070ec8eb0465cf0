//! AdamW over the flat buffers of a model, with state of our own, and clipping by the global norm.

use candle_core::Device;
use spag_model::ops::adamw::{AdamWStep, adamw};
use spag_model::ops::squared_norm::squared_norm;
use spag_model::{FlatBuffers, LayerLayout, Layout};

use crate::config::TrainConfig;
use crate::error::Result;

/// AdamW's moments and step count.
///
/// Norm weights are never decayed.
#[derive(Debug)]
pub struct AdamW {
    first: FlatBuffers,
    second: FlatBuffers,
    step: u64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: f64,
}

impl AdamW {
    /// Moments of zero for a model of this layout.
    ///
    /// # Errors
    /// The device cannot hold the moments.
    pub fn new(config: &TrainConfig, layout: &Layout, device: &Device) -> Result<Self> {
        Ok(Self {
            first: FlatBuffers::zeros(layout, device)?,
            second: FlatBuffers::zeros(layout, device)?,
            step: 0,
            beta1: config.adam_beta1,
            beta2: config.adam_beta2,
            epsilon: config.adam_epsilon,
            weight_decay: config.weight_decay,
        })
    }

    /// One update of `parameters` in place. `gradient_scale` multiplies the gradients first.
    ///
    /// # Errors
    /// Buffers of another layout.
    pub fn update(
        &mut self,
        parameters: &FlatBuffers,
        gradients: &FlatBuffers,
        learning_rate: f64,
        gradient_scale: f64,
    ) -> Result<()> {
        self.step += 1;
        let at = AdamWStep {
            step: self.step,
            learning_rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            gradient_scale,
        };
        for (index, layer) in parameters.layout().layers.iter().enumerate() {
            for span in decay_spans(layer) {
                let part = |buffers: &FlatBuffers| buffers.layers()[index].narrow(0, span.start, span.len);
                let weight_decay = if span.decays { self.weight_decay } else { 0.0 };
                let at = AdamWStep { weight_decay, ..at };
                adamw(&part(parameters)?, &part(gradients)?, &part(&self.first)?, &part(&self.second)?, &at)?;
            }
        }
        Ok(())
    }
}

/// A run of neighbouring elements that decay alike.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    start: usize,
    len: usize,
    decays: bool,
}

/// Matrices decay, norm weights do not: transformers' Trainer leaves them out of the decay.
fn decay_spans(layer: &LayerLayout) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for view in &layer.views {
        let (len, decays) = (view.shape.iter().product(), view.shape.len() > 1);
        match spans.last_mut() {
            Some(last) if last.decays == decays => last.len += len,
            _ => spans.push(Span { start: view.offset, len, decays }),
        }
    }
    spans
}

/// The global norm of all gradients.
///
/// # Errors
/// An error of the device.
pub fn global_norm(gradients: &FlatBuffers) -> Result<f64> {
    let mut sum = 0.0;
    for layer in gradients.layers() {
        sum += squared_norm(layer)?;
    }
    Ok(sum.sqrt())
}

/// The factor that brings `norm` down to `max_norm`, as torch's `clip_grad_norm_` computes it; 0 means no limit.
pub fn clip_factor(norm: f64, max_norm: f64) -> f64 {
    match max_norm > 0.0 {
        true => (max_norm / (norm + 1e-6)).min(1.0),
        false => 1.0,
    }
}
