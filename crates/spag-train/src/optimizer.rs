//! AdamW over the flat buffers of a model, with state of our own, and clipping by the global norm.

mod host;

use candle_core::{DType, Device, Tensor};
use spag_model::ops::adamw::{AdamWStep, Weights, adamw};
use spag_model::ops::cast::widened;
use spag_model::ops::squared_norm::squared_norm_into;
use spag_model::{FlatBuffers, OptimizerPlace};

use crate::config::{OffloadParam, TrainConfig};
use crate::error::Result;
use crate::zero::{Partition, Zero, alone};

use host::Transfers;

/// AdamW's moments, update count and, where the parameters are bf16, the f32 master weights, of all parameters or of a
/// rank's parts.
///
/// Norm weights are never decayed.
pub struct AdamW {
    partition: Partition,
    first: Vec<Tensor>,
    second: Vec<Tensor>,
    master: Option<Vec<Tensor>>,
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
        let zero = Zero { optimizer: place, ..Zero::default() };
        let partition = Partition::whole(parameters.layout());
        Self::of_parts(config, partition, parameters.layers(), parameters.device(), zero)
    }

    /// As [`AdamW::placed`], for parts of layers whose gradients lie on `device`. The state of parameters that lie in the
    /// host's memory is there too.
    ///
    /// # Errors
    /// As [`AdamW::placed`].
    pub(crate) fn of_parts(
        config: &TrainConfig,
        partition: Partition,
        parameters: &[Tensor],
        device: &Device,
        zero: Zero,
    ) -> Result<Self> {
        let transfers = match (zero.optimizer, zero.parameters) {
            (OptimizerPlace::Device, OffloadParam::None) => None,
            (_, place) => Transfers::new(parameters, place, device)?,
        };
        let device = if transfers.is_some() { &Device::Cpu } else { device };
        let zeros = || -> Result<Vec<Tensor>> {
            let like = |parameter: &Tensor| Tensor::zeros(parameter.elem_count(), DType::F32, device);
            Ok(parameters.iter().map(like).collect::<candle_core::Result<_>>()?)
        };
        // On the way to the host as bf16, which is half as much.
        let own = |parameter: &Tensor| -> Result<Tensor> { Ok(widened(&alone(parameter)?.to_device(device)?)?) };
        let away = transfers.is_some() && zero.parameters == OffloadParam::None;
        let has_master = away || parameters.iter().any(|parameter| parameter.dtype() == DType::BF16);
        Ok(Self {
            first: zeros()?,
            second: zeros()?,
            master: has_master.then(|| parameters.iter().map(own).collect::<Result<_>>()).transpose()?,
            partition,
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

    /// Where the state lies, seen from the device that holds the gradients.
    pub(crate) fn place(&self) -> OptimizerPlace {
        match self.transfers {
            Some(_) => OptimizerPlace::Host,
            None => OptimizerPlace::Device,
        }
    }

    /// The buffers that are saved with a checkpoint, by the stem of their files: one a layer, or the part of one. All f32.
    pub fn state(&self) -> impl Iterator<Item = (&'static str, &[Tensor])> {
        let moments = [("exp_avg", self.first.as_slice()), ("exp_avg_sq", self.second.as_slice())];
        moments.into_iter().chain(self.master.as_ref().map(|master| ("master", master.as_slice())))
    }

    /// One update of `parameters` in place, which are those that this was made for. `gradient_scale` multiplies the
    /// gradients (f32, as long) first.
    ///
    /// # Errors
    /// Buffers of other lengths.
    pub fn update(
        &mut self,
        parameters: &[Tensor],
        gradients: &[Tensor],
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
        for (index, (gradient, parameter)) in gradients.iter().zip(parameters).enumerate() {
            self.update_layer(index, gradient, parameter, &at)?;
        }
        Ok(())
    }

    /// Updates a layer. `parameter` is what the model reads: overwritten where there are master weights.
    fn update_layer(&self, index: usize, gradient: &Tensor, parameter: &Tensor, at: &AdamWStep) -> Result<()> {
        for span in self.partition.spans(index) {
            let part = |layer: &Tensor| layer.narrow(0, span.start, span.len);
            let weight_decay = if span.decays { self.weight_decay } else { 0.0 };
            let at = AdamWStep { weight_decay, ..*at };
            let parameter = part(parameter)?;
            let master = self.master.as_ref().map(|master| part(&master[index])).transpose()?;
            let weights = match &master {
                Some(wide) if parameter.dtype() == DType::BF16 => Weights::Master { wide, rounded: &parameter },
                Some(wide) => Weights::F32(wide),
                None => Weights::F32(&parameter),
            };
            adamw(weights, &part(gradient)?, &part(&self.first[index])?, &part(&self.second[index])?, &at)?;
            if let (Some(wide), DType::F32) = (&master, parameter.dtype()) {
                parameter.slice_set(wide, 0, 0)?;
            }
        }
        Ok(())
    }
}

/// The global norm of all gradients. The device is waited for once, at the end.
///
/// # Errors
/// An error of the device.
pub fn global_norm(gradients: &FlatBuffers) -> Result<f64> {
    Ok(squared_norm(gradients.layers())?.sqrt())
}

/// The sum of the squares of all elements. The device is waited for once, at the end.
pub(crate) fn squared_norm(layers: &[Tensor]) -> Result<f64> {
    let sum = Tensor::zeros(1, DType::F64, layers.first().map_or(&Device::Cpu, Tensor::device))?;
    for layer in layers {
        squared_norm_into(layer, &sum)?;
    }
    Ok(sum.to_vec1::<f64>()?[0])
}

/// The factor that brings `norm` down to `max_norm`, as torch's `clip_grad_norm_` computes it; 0 means no limit.
pub fn clip_factor(norm: f64, max_norm: f64) -> f64 {
    match max_norm > 0.0 {
        true => (max_norm / (norm + 1e-6)).min(1.0),
        false => 1.0,
    }
}
