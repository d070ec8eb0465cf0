//! What an optimizer keeps between steps, and one update of all layers.

use candle_core::{DType, Device, Tensor};
use spag_model::dtype::WeightDtype;
use spag_model::params::FlatBuffers;
use spag_ops::cast::{round_in_place, widened};

use super::offload::Offload;
use super::{Covers, Optimizer, StateBuffer, UpdateSpan, UpdateStep, Weights, update_spans};
use crate::config::Placement;
use crate::error::Result;

/// An optimizer with its buffers, update count and, if the parameters are bf16, f32 master weights: of all parameters or
/// of a rank's shard.
pub struct OptimizerState {
    optimizer: Box<dyn Optimizer>,
    /// Of each layer.
    spans: Vec<Vec<UpdateSpan>>,
    /// In the order of the optimizer's declaration; one tensor a layer.
    buffers: Vec<Vec<Tensor>>,
    master: Option<Vec<Tensor>>,
    /// Set if the state is on the host and the gradients are not.
    offload: Option<Offload>,
    /// Gradients are rounded to this format before an update.
    gradients: WeightDtype,
    updates: u64,
}

/// The f32 weights that are updated, if the parameters are bf16 or on another device.
const MASTER: StateBuffer = StateBuffer::new("master");

/// The parameters that a rank updates: a flat tensor a layer.
pub(crate) struct ShardedParameters<'a> {
    pub(crate) layers: &'a [Tensor],
    /// What is updated at once in each layer.
    pub(crate) spans: Vec<Vec<UpdateSpan>>,
    /// The device of the gradients.
    pub(crate) device: &'a Device,
    /// Where the parameters are stored between their uses.
    pub(crate) placement: Placement,
    /// The format that gradients are rounded to before an update.
    pub(crate) gradients: WeightDtype,
}

impl OptimizerState {
    /// A fresh state for whole layers, on their device or on the host. On the host it always has master weights. Gradients, which are
    /// f32, are rounded to the numbers of `gradients` before an update.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn new(
        optimizer: Box<dyn Optimizer>,
        parameters: &FlatBuffers,
        place: Placement,
        gradients: WeightDtype,
    ) -> Result<Self> {
        let (layout, unit) = (parameters.layout(), optimizer.unit());
        let parameters = ShardedParameters {
            layers: parameters.layers(),
            spans: layout.layers.iter().map(|layer| update_spans(layer, 0..layer.len, unit)).collect(),
            device: parameters.device(),
            placement: Placement::Device,
            gradients,
        };
        Self::sharded(optimizer, parameters, place)
    }

    /// As [`OptimizerState::new`] for shards of layers. If the parameters are offloaded, so is the state.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn sharded(
        optimizer: Box<dyn Optimizer>,
        parameters: ShardedParameters<'_>,
        place: Placement,
    ) -> Result<Self> {
        let ShardedParameters { layers, spans, device, placement: parameters, gradients } = parameters;
        let offload = match (place, parameters) {
            (Placement::Device, Placement::Device) => None,
            _ => Offload::new(layers, parameters, device, gradients)?,
        };
        let device = if offload.is_some() { &Device::Cpu } else { device };
        let zeros = |buffer: &StateBuffer| -> Result<Vec<Tensor>> {
            let len = |layer: &Tensor, spans: &[UpdateSpan]| match buffer.covers {
                Covers::All => layer.elem_count(),
                covers => spans.iter().filter(|span| covers.includes(span)).map(|span| span.len).sum(),
            };
            let zeros = layers.iter().zip(&spans).map(|(layer, spans)| len(layer, spans));
            Ok(zeros.map(|len| Tensor::zeros(len, buffer.dtype.into(), device)).collect::<candle_core::Result<_>>()?)
        };
        // Copied to the device before it is widened: bf16 is half as much to move.
        let widen = |layer: &Tensor| widened(&layer.force_contiguous()?.to_device(device)?);
        let needs_master = (offload.is_some() && parameters == Placement::Device)
            || layers.iter().any(|layer| layer.dtype() == DType::BF16);
        Ok(Self {
            buffers: optimizer.state().iter().map(zeros).collect::<Result<_>>()?,
            master: needs_master.then(|| layers.iter().map(widen).collect::<candle_core::Result<_>>()).transpose()?,
            optimizer,
            spans,
            offload,
            gradients,
            updates: 0,
        })
    }

    /// Updates so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Resumes from a saved count. The caller restores the contents of [`OptimizerState::buffers`].
    pub(crate) fn resume_at(&mut self, updates: u64) {
        self.updates = updates;
    }

    /// Where the state is, relative to the device of the gradients.
    pub(crate) fn place(&self) -> Placement {
        if self.offload.is_some() { Placement::Host } else { Placement::Device }
    }

    /// What a checkpoint saves: the optimizer's buffers and the master weights, a tensor for each layer or shard of a layer.
    pub fn buffers(&self) -> impl Iterator<Item = (StateBuffer, &[Tensor])> {
        let own = self.optimizer.state().iter().zip(&self.buffers).map(|(buffer, layers)| (*buffer, &layers[..]));
        own.chain(self.master.as_ref().map(|master| (MASTER, &master[..])))
    }

    /// Starts to send the gradient of a layer (f32), which is complete, to a state on the host. It must not change before the next
    /// update or [`OptimizerState::forget_gradients`].
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn start(&self, layer: usize, gradient: &Tensor) -> Result<()> {
        self.offload.as_ref().map_or(Ok(()), |offload| offload.start(layer, gradient))
    }

    /// Waits for gradients that are being sent, and forgets them.
    pub(crate) fn forget_gradients(&self) {
        if let Some(offload) = &self.offload {
            offload.forget();
        }
    }

    /// One update in place of `parameters`, which this state was made for. `gradient_scale` multiplies the gradients (f32) after they
    /// have been rounded, which may be in place.
    ///
    /// # Errors
    /// Tensors of other lengths.
    pub fn update(
        &mut self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        learning_rate: f64,
        gradient_scale: f64,
    ) -> Result<()> {
        self.updates += 1;
        let step = UpdateStep { count: self.updates, learning_rate, gradient_scale, decay: false, matrix: None };
        if let Some(offload) = &self.offload {
            return offload.update(parameters, gradients, |layer, gradient, parameter| {
                self.update_layer(layer, gradient, parameter, &step)
            });
        }
        for (layer, (gradient, parameter)) in gradients.iter().zip(parameters).enumerate() {
            if self.gradients == WeightDtype::Bf16 {
                round_in_place(gradient)?;
            }
            self.update_layer(layer, gradient, parameter, &step)?;
        }
        Ok(())
    }

    /// Updates a layer. `parameter` is what the model reads; it is overwritten if there are master weights.
    fn update_layer(&self, layer: usize, gradient: &Tensor, parameter: &Tensor, step: &UpdateStep) -> Result<()> {
        // Where the span's elements begin in each buffer.
        let mut starts = vec![0; self.buffers.len()];
        for span in &self.spans[layer] {
            let narrow = |tensor: &Tensor| tensor.narrow(0, span.start, span.len);
            let parameter = narrow(parameter)?;
            let master = self.master.as_ref().map(|master| narrow(&master[layer])).transpose()?;
            let weights = match &master {
                Some(wide) if parameter.dtype() == DType::BF16 => Weights::Master { wide, rounded: &parameter },
                Some(wide) => Weights::F32(wide),
                None => Weights::F32(&parameter),
            };
            let mut buffers = Vec::with_capacity(self.buffers.len());
            for ((buffer, layers), start) in self.optimizer.state().iter().zip(&self.buffers).zip(&mut starts) {
                if buffer.covers.includes(span) {
                    buffers.push(layers[layer].narrow(0, *start, span.len)?);
                    *start += span.len;
                }
            }
            let step = UpdateStep { decay: span.decay, matrix: span.matrix, ..*step };
            self.optimizer.update(&step, weights, &narrow(gradient)?, &buffers)?;
            if let (Some(wide), DType::F32) = (&master, parameter.dtype()) {
                parameter.slice_set(wide, 0, 0)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use spag_model::ModelConfig;
    use spag_model::params::Layout;

    use super::super::replace;
    use super::*;

    /// Stochastic gradient descent with momentum and weight decay.
    struct MomentumSgd;

    impl Optimizer for MomentumSgd {
        fn state(&self) -> &'static [StateBuffer] {
            const { &[StateBuffer::new("momentum")] }
        }

        fn update(&self, step: &UpdateStep, weights: Weights<'_>, gradient: &Tensor, buffers: &[Tensor]) -> Result<()> {
            let momentum = ((&buffers[0] * 0.9)? + (gradient * step.gradient_scale)?)?;
            buffers[0].slice_set(&momentum, 0, 0)?;
            let decay = if step.decay { 0.5 } else { 0.0 };
            replace(weights, |w| (w * (1.0 - step.learning_rate * decay))? - (momentum * step.learning_rate)?)
        }
    }

    #[test]
    fn optimizer_needs_only_its_update_rule() {
        let config: ModelConfig = serde_json::from_str(
            r#"{"hidden_size": 4, "intermediate_size": 6, "vocab_size": 8, "num_hidden_layers": 1,
                "num_attention_heads": 1, "max_position_embeddings": 8}"#,
        )
        .unwrap();
        let layout = Layout::new(&config.architecture);
        for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
            let parameters = FlatBuffers::padded(&layout, dtype, &Device::Cpu, 1).unwrap();
            let gradients = FlatBuffers::zeros(&layout, &Device::Cpu).unwrap();
            for (parameter, gradient) in parameters.layers().iter().zip(gradients.layers()) {
                parameter.slice_set(&parameter.ones_like().unwrap(), 0, 0).unwrap();
                gradient.slice_set(&gradient.ones_like().unwrap(), 0, 0).unwrap();
            }
            let optimizer = Box::new(MomentumSgd);
            let mut state = OptimizerState::new(optimizer, &parameters, Placement::Device, WeightDtype::F32).unwrap();
            for _ in 0..2 {
                state.update(parameters.layers(), gradients.layers(), 0.25, 0.5).unwrap();
            }
            let names: Vec<&str> = state.buffers().map(|(buffer, _)| buffer.name).collect();
            assert_eq!(names, if dtype == WeightDtype::F32 { vec!["momentum"] } else { vec!["momentum", "master"] });
            // Momenta 0.5 and 0.95. The head starts with the final norm, which does not decay.
            let [norm, matrix] = [1.0 - 0.25 * (0.5 + 0.95), (1.0 * 0.875 - 0.125) * 0.875 - 0.2375];
            let head = widened(parameters.layers().last().unwrap()).unwrap().to_vec1::<f32>().unwrap();
            let close = |got: f32, want: f64| (f64::from(got) - want).abs() < 4e-3;
            assert!(close(head[0], norm) && close(head[4], matrix), "{dtype}: {head:?} {norm} {matrix}");
        }
    }
}
