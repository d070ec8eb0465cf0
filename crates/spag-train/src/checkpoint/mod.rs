//! Checkpoints that a run can go on from: a Hugging Face folder with a `trainer_state/` inside.
//!
//! ```text
//! checkpoint-120/
//!   config.json  tokenizer.json  …  model.safetensors     what plays, and opens in transformers
//!   trainer_state/
//!     state.json                       where the run is, its settings, and what every file should hold
//!     exp_avg.safetensors              AdamW's moments, f32
//!     exp_avg_sq.safetensors
//!     master.safetensors               f32 weights, where the model's are bf16
//! ```
//!
//! It is written under another name, synced and renamed, so that a folder of this name is a whole one.

mod folders;
mod read;
mod state;
mod write;

pub use folders::{checkpoint_folders, latest_checkpoint};
pub use read::SavedRun;
pub use state::SavedState;

pub(crate) use folders::{prune, remove_leftovers};
pub(crate) use write::{Origin, read_through, write, write_elsewhere};

/// The folder inside a checkpoint that holds what only training needs.
pub(crate) const TRAINER_STATE: &str = "trainer_state";
/// The file in it that is written last.
pub(crate) const STATE_FILE: &str = "state.json";
