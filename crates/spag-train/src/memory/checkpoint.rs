//! How large a checkpoint is.

use spag_model::Architecture;

use crate::config::TrainConfig;
use crate::optimizer::{self, Covers};

/// Bytes of a checkpoint: what is trained, the optimizer's state and, beside weights of bf16, master weights.
pub fn checkpoint_bytes(model: &Architecture, config: &TrainConfig) -> u64 {
    let layout = config.trained_layout(model);
    let of_all = |bytes: usize| (layout.len() * bytes) as u64;
    let state = optimizer::build(config).state().iter().map(|buffer| match buffer.covers {
        Covers::All => of_all(buffer.dtype.bytes()),
        covers => (covers.layout(&layout).len() * buffer.dtype.bytes()) as u64,
    });
    of_all(config.dtype().bytes()) + if config.bf16 { of_all(4) } else { 0 } + state.sum::<u64>()
}
