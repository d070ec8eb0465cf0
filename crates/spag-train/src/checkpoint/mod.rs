//! Checkpoints that a run can resume from: a Hugging Face folder with a `trainer_state/` inside.
//!
//! ```text
//! checkpoint-120/
//!   config.json  tokenizer.json  …  model.safetensors     the model, which transformers can open
//!   trainer_state/
//!     state.json                       progress, settings, and size and checksum of every file
//!     exp_avg.safetensors              the optimizer's buffers by name, f32: AdamW's moments
//!     exp_avg_sq.safetensors
//!     master.safetensors               f32 master weights, if the model's are bf16
//! ```
//!
//! It is written under a temporary name, synced and renamed, so a folder of this name is complete. Several ranks divide large buffers
//! among files with an index.

mod folders;
mod origin;
mod read;
mod shares;
mod state;
mod write;

pub use folders::{checkpoint_folders, latest_checkpoint, remove_checkpoints_after};
pub use read::SavedRun;
pub(crate) use state::CHANGEABLE;
pub use state::SavedState;

pub(crate) use folders::{has_state, named_checkpoints, prune, remove, remove_leftovers};
pub(crate) use origin::Origin;
pub(crate) use write::{Writing, gather_layers};

/// The folder inside a checkpoint for what only training reads.
pub(crate) const TRAINER_STATE: &str = "trainer_state";
/// The file in it that is written last.
pub(crate) const STATE_FILE: &str = "state.json";
