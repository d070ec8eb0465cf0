//! Whole models on kernels, compared with PyTorch's numbers, the reference implementation and the CPU: in the emulator, or,
//! with more cases, on the GPU in a build with the feature `cuda`.

mod capture;
mod decode_launches;
mod dry;
mod engine;
mod families;
mod greedy;
mod quantised;
mod training_launches;

use spag_emulator::Place;
use spag_model::generate::{PrefixSharing, SumOrder};
use spag_model::{EngineConfig, Model};

/// An engine for requests of 64 tokens.
fn small_engine(pages: usize, max_running: usize) -> EngineConfig {
    let (page_size, prefix_sharing) = (16, PrefixSharing::On);
    EngineConfig {
        max_length: 64,
        page_size,
        pages,
        max_running,
        max_step_tokens: 64,
        prefix_sharing,
        sum_order: SumOrder::Any,
    }
}

/// A copy of the model on the place's device.
fn copied(model: &Model, place: &Place) -> Model {
    let parameters = model.parameters().to_device(place.device()).unwrap().deep_copy().unwrap();
    Model::from_parameters(model.config(), parameters).unwrap()
}
