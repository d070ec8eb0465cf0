//! An optimizer that spag-train does not know: the sign of a running mean of gradients (Lion with one coefficient).

use std::path::Path;

use candle_core::Tensor;
use spag_model::dtype::WeightDtype;
use spag_model::params::FlatBuffers;
use spag_model::{Model, ModelConfig};
use spag_train::Placement;
use spag_train::optimizer::{Optimizer, OptimizerState, StateBuffer, UpdateStep, Weights};

/// m ← β·m + (1 − β)·g, w ← w − η·sign(m).
struct SignOfMean {
    beta: f64,
}

impl Optimizer for SignOfMean {
    // Memory plans, shards, offload and checkpoints follow from this declaration.
    fn state(&self) -> &'static [StateBuffer] {
        const STATE: [StateBuffer; 1] = [StateBuffer::new("mean")];
        &STATE
    }

    fn update(
        &self,
        step: &UpdateStep,
        weights: Weights<'_>,
        gradient: &Tensor,
        buffers: &[Tensor],
    ) -> spag_train::Result<()> {
        let gradient = (gradient * (step.gradient_scale * (1.0 - self.beta)))?;
        buffers[0].slice_set(&((&buffers[0] * self.beta)? + gradient)?, 0, 0)?;
        let Weights::F32(weights) = weights else {
            return Err(candle_core::Error::Msg("only f32 weights".into()).into());
        };
        weights.slice_set(&(weights - (buffers[0].sign()? * step.learning_rate)?)?, 0, 0)?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tiny-llama");
    let model = Model::init(&ModelConfig::from_file(folder.join("config.json"))?, 1)?;
    let parameters = model.parameters();
    let gradients = FlatBuffers::zeros(parameters.layout(), parameters.device())?;
    for layer in gradients.layers() {
        layer.slice_set(&layer.ones_like()?, 0, 0)?;
    }
    let first = |layers: &[Tensor]| layers[0].narrow(0, 0, 1)?.to_vec1::<f32>().map(|one| one[0]);
    let before = first(parameters.layers())?;
    let optimizer = Box::new(SignOfMean { beta: 0.9 });
    let mut state = OptimizerState::new(optimizer, parameters, Placement::Device, WeightDtype::F32)?;
    state.update(parameters.layers(), gradients.layers(), 0.25, 1.0)?;
    let moved = before - first(parameters.layers())?;
    println!("one update moved the first weight by {moved}");
    assert!((moved - 0.25).abs() < 1e-6);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn weights_move_by_the_learning_rate() {
        super::main().unwrap();
    }
}
