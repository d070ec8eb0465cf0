//! The LLaMA architecture (Touvron et al. 2023) with a forward and a hand-written backward pass per layer.

mod block;
mod init;
mod model;
mod network;

pub(crate) use init::RandomWeights;
pub use model::Llama;
pub use network::{Activations, Forward, Network};
