//! Whole models on kernels, against PyTorch's numbers, the reference implementation and the CPU: in the emulator, or on the GPU
//! of a build with the feature `cuda`, which runs more of the same cases.

mod capture;
mod dry;
mod engine;
mod families;
mod greedy;

use spag_emulator::Place;
use spag_model::Model;

/// A copy of the model on the place's device.
fn copied(model: &Model, place: &Place) -> Model {
    let parameters = model.parameters().to_device(place.device()).unwrap().deep_copy().unwrap();
    Model::from_parameters(model.config(), parameters).unwrap()
}
