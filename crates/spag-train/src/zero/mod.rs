//! ZeRO (Rajbhandari et al. 2020): what a run remembers, split over its ranks.
//!
//! | stage | parameters | gradients | optimizer's state | communication of a step with one micro-batch, Ψ parameters |
//! |---|---|---|---|---|
//! | 0 | whole | whole | whole | 2Ψ: sums of gradients, and the whole of them to every rank |
//! | 1 | whole | parts | parts | 2Ψ: sums of gradients, and the new parameters |
//! | 2 | whole | parts | parts | 2Ψ |
//! | 3 | parts | parts | parts | 3Ψ: sums of gradients, and the parameters for each of the two passes |
//!
//! Each Ψ is (N − 1)/N of the model, sent and received by every rank. In every stage gradients are summed over the ranks
//! after each micro-batch, layer by layer while the backward pass goes on, and a rank adds up its parts of the sums. So a
//! stage is a matter of memory and of traffic alone: with the same ranks all stages give the same bits. (It is also why
//! stages 1 and 2 are one here: whole gradients would gain stage 1 nothing.) Each further micro-batch of a step costs
//! another Ψ, in stage 3 three.
//!
//! Buffers are cut per layer ([`Partition`]), so that a layer remains the unit of everything.

mod gathered;
mod partition;
mod reduced;
mod settings;
mod state;

pub use partition::Partition;
pub use settings::Zero;

pub(crate) use state::State;

use crate::error::Error;

/// An error on its way through a pass of the model.
fn into_model(error: Error) -> spag_model::Error {
    match error {
        Error::Model(error) => error,
        error => spag_model::Error::WeightSource(Box::new(error)),
    }
}
