//! How much memory a training run needs, and whether that much is free. `spag plan` and the trainer share the formulas.

mod activations;
mod checkpoint;
mod fit;
mod rank;
mod whole_layers;

pub use checkpoint::checkpoint_bytes;
pub use fit::{Beside, Fitted, PlannedRun, fit};
pub use rank::RankMemory;
