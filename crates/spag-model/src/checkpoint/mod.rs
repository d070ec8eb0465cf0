//! Checkpoints: reads and writes Hugging Face folders, and reads GGUF files.

mod format;
mod gguf;
mod missing;
mod options;
mod quantised;
mod read;
mod rows;
mod safetensors;
mod shard_size;
mod shards;
mod source;
mod source_files;
mod tensor_file;
mod tied_head;
mod torch;
mod weight_file;
mod weight_files;
mod write;

use std::path::Path;

use crate::error::Result;
use crate::model::Model;
use crate::tokenizer::Tokenizer;

pub(crate) use missing::folders_with;
pub use options::{LoadOptions, WriteOptions};
pub use quantised::{is_quantised, load_quantised, load_quantised_layers};
pub(crate) use read::read_adapter;
pub use read::{
    check_checkpoint, load_config, load_model, load_model_with, load_notes, load_tokenizer, read_buffers, read_tensors,
    weights_digest,
};
pub use shard_size::ShardSize;
pub use shards::{ShardFiles, write_buffers};
pub use source_files::python_files;
pub use tensor_file::WrittenFile;
pub use weight_files::{ADAPTER, MODEL};
pub use write::{save_checkpoint, save_model, write_config, write_random_model};

/// A model with its tokenizer.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The model and its configuration.
    pub model: Model,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
}

impl Checkpoint {
    /// Reads a checkpoint as f32 on the CPU: `config.json`, the tokenizer and the weights (`model.safetensors` or
    /// `pytorch_model.bin`, or shards of either with an index) from a folder, or all of them from a GGUF file.
    ///
    /// # Errors
    /// A missing or malformed file, tensors that are missing, misshapen, unused or not finite, or tokens outside the
    /// model's vocabulary.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &LoadOptions::default())
    }

    /// [`Checkpoint::load`] with a given device and number format. Holds at most one tensor in host memory in
    /// addition to the model.
    ///
    /// # Errors
    /// As [`Checkpoint::load`], or [`spag_ops::Error::Memory`] if the weights do not fit into the memory of the device or, for
    /// a CPU, of the host.
    pub fn load_with(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let tokenizer = load_tokenizer(&path)?;
        Ok(Self { model: load_model_with(path, options)?, tokenizer })
    }

    /// Writes the checkpoint, each file atomically and the weights last. Returns the weight files.
    pub fn save(&self, dir: impl AsRef<Path>, options: WriteOptions) -> Result<Vec<WrittenFile>> {
        save_checkpoint(self.model.config(), self.model.parameters(), Some(&self.tokenizer), dir, options)
    }
}
