//! AdamW over the flat buffers of a model, with state of our own, and clipping by the global norm.

mod host;

use candle_core::{DType, Device, Tensor};
use spag_model::ops::adamw::{AdamWStep, Weights, adamw};
use spag_model::ops::squared_norm::squared_norm_into;
use spag_model::{FlatBuffers, LayerLayout, OptimizerPlace, WeightDtype};

use crate::config::TrainConfig;
use crate::error::Result;

use host::Transfers;

/// AdamW's moments, update count and, where the parameters are bf16, the f32 master weights.
///
/// Norm weights are never decayed.
pub struct AdamW {
    first: FlatBuffers,
    second: FlatBuffers,
    master: Option<FlatBuffers>,
    /// What carries gradients and parameters, where the state lies on the host and they do not.
    transfers: Option<Transfers>,
    updates: u64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: f64,
}

impl AdamW {
    /// Moments of zero for these parameters, on their device; master weights from them where they are bf16.
    ///
    /// # Errors
    /// The device cannot hold the state.
    pub fn new(config: &TrainConfig, parameters: &FlatBuffers) -> Result<Self> {
        Self::placed(config, parameters, OptimizerPlace::Device)
    }

    /// As [`AdamW::new`], with the state on the device of the parameters or on the host. On the host there are master
    /// weights in any case.
    ///
    /// # Errors
    /// The device or the host cannot hold the state.
    pub fn placed(config: &TrainConfig, parameters: &FlatBuffers, place: OptimizerPlace) -> Result<Self> {
        let transfers = match place {
            OptimizerPlace::Device => None,
            OptimizerPlace::Host => Transfers::new(parameters)?,
        };
        let device = if transfers.is_some() { &Device::Cpu } else { parameters.device() };
        let zeros = || FlatBuffers::zeros(parameters.layout(), device);
        let master = match (parameters.dtype(), &transfers) {
            (WeightDtype::F32, None) => None,
            (WeightDtype::F32, Some(_)) => Some(parameters.to_device(device)?.deep_copy()?),
            // On the way to the host as bf16, which is half as much.
            (WeightDtype::Bf16, _) => Some(parameters.to_device(device)?.to_dtype(WeightDtype::F32)?),
        };
        Ok(Self {
            first: zeros()?,
            second: zeros()?,
            master,
            transfers,
            updates: 0,
            beta1: config.adam_beta1,
            beta2: config.adam_beta2,
            epsilon: config.adam_epsilon,
            weight_decay: config.weight_decay,
        })
    }

    /// Updates done so far: the exponent of the bias correction.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Goes on from a saved count; the buffers of [`AdamW::state`] are filled by whoever reads them.
    pub(crate) fn resume_at(&mut self, updates: u64) {
        self.updates = updates;
    }

    /// The buffers that are saved with a checkpoint, by the stem of their files. All f32.
    pub fn state(&self) -> impl Iterator<Item = (&'static str, &FlatBuffers)> {
        let moments = [("exp_avg", &self.first), ("exp_avg_sq", &self.second)];
        moments.into_iter().chain(self.master.as_ref().map(|master| ("master", master)))
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
        self.updates += 1;
        let at = AdamWStep {
            step: self.updates,
            learning_rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            gradient_scale,
        };
        if let Some(transfers) = &self.transfers {
            return transfers.update(parameters, gradients, |index, gradient, parameter| {
                self.update_layer(index, gradient, parameter, &at)
            });
        }
        for (index, (gradient, parameter)) in gradients.layers().iter().zip(parameters.layers()).enumerate() {
            self.update_layer(index, gradient, parameter, &at)?;
        }
        Ok(())
    }

    /// Updates a layer. `parameter` is what the model reads: overwritten where there are master weights.
    fn update_layer(&self, index: usize, gradient: &Tensor, parameter: &Tensor, at: &AdamWStep) -> Result<()> {
        for span in decay_spans(&self.first.layout().layers[index]) {
            let part = |layer: &Tensor| layer.narrow(0, span.start, span.len);
            let weight_decay = if span.decays { self.weight_decay } else { 0.0 };
            let at = AdamWStep { weight_decay, ..*at };
            let parameter = part(parameter)?;
            let master = self.master.as_ref().map(|master| part(&master.layers()[index])).transpose()?;
            let weights = match &master {
                Some(wide) if parameter.dtype() == DType::BF16 => Weights::Master { wide, rounded: &parameter },
                Some(wide) => Weights::F32(wide),
                None => Weights::F32(&parameter),
            };
            let moment = |moments: &FlatBuffers| part(&moments.layers()[index]);
            adamw(weights, &part(gradient)?, &moment(&self.first)?, &moment(&self.second)?, &at)?;
            if let (Some(wide), DType::F32) = (&master, parameter.dtype()) {
                parameter.slice_set(wide, 0, 0)?;
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

/// The global norm of all gradients. The device is waited for once, at the end.
///
/// # Errors
/// An error of the device.
pub fn global_norm(gradients: &FlatBuffers) -> Result<f64> {
    let sum = Tensor::zeros(1, DType::F64, gradients.device())?;
    for layer in gradients.layers() {
        squared_norm_into(layer, &sum)?;
    }
    Ok(sum.to_vec1::<f64>()?[0].sqrt())
}

/// The factor that brings `norm` down to `max_norm`, as torch's `clip_grad_norm_` computes it; 0 means no limit.
pub fn clip_factor(norm: f64, max_norm: f64) -> f64 {
    match max_norm > 0.0 {
        true => (max_norm / (norm + 1e-6)).min(1.0),
        false => 1.0,
    }
}
