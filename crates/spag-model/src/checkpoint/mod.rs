//! Hugging Face checkpoint folders, in and out.

mod dtype;
mod load;
mod open_file;
mod read;
mod tensor_file;
mod write;

use std::path::Path;

use candle_core::Tensor;

use crate::config::LlamaConfig;
use crate::error::Result;
use crate::llama::Llama;
use crate::params::{FlatBuffers, Layout, WeightSource};
use crate::tokenizer::{SpecialIds, Tokenizer};

pub use dtype::{DtypeChoice, WeightDtype};
pub use load::LoadOptions;
pub use tensor_file::WrittenFile;
pub use write::{WriteOptions, write_file};

/// A model with its tokenizer: what a folder holds and what plays.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The model and its configuration.
    pub model: Llama,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
}

impl Checkpoint {
    /// Reads `config.json`, the tokenizer and the weights (`model.safetensors`, or shards with their index) as f32 into
    /// the host's memory.
    ///
    /// # Errors
    /// A missing or malformed file, missing or misshapen tensors, or more pieces than the model has embeddings.
    pub fn load(dir: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(dir, &LoadOptions::default())
    }

    /// As [`Checkpoint::load`], onto a device and in a number format of choice. Beside the model itself no more than
    /// one tensor is in memory.
    ///
    /// # Errors
    /// As [`Checkpoint::load`], or [`Error::Memory`](crate::Error::Memory) where the device has no room for the weights.
    pub fn load_with(dir: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let dir = dir.as_ref();
        let config = read::config(dir)?;
        let tokenizer = tokenizer(dir, &config)?;
        let model = read::model(dir, config, options)?;
        Ok(Self { model, tokenizer })
    }

    /// Writes the folder; every file is written beside its place and renamed, the weights last. Returns the files of
    /// the weights.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn save(&self, dir: impl AsRef<Path>, options: WriteOptions) -> Result<Vec<WrittenFile>> {
        save_checkpoint(self.model.config(), self.model.parameters(), Some(&self.tokenizer), dir, options)
    }
}

/// As [`Checkpoint::save`], for weights that are lent a layer at a time, in order; the tokenizer may be missing.
///
/// # Errors
/// As [`Checkpoint::save`], or what the weights' source reports.
pub fn save_checkpoint(
    config: &LlamaConfig,
    weights: &dyn WeightSource,
    tokenizer: Option<&Tokenizer>,
    dir: impl AsRef<Path>,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    write::save(config, weights, tokenizer, dir.as_ref(), options)
}

/// Writes a model without a tokenizer: `config.json` and the weights.
///
/// # Errors
/// As [`Checkpoint::save`].
pub fn save_model(model: &Llama, dir: impl AsRef<Path>, options: WriteOptions) -> Result<Vec<WrittenFile>> {
    save_checkpoint(model.config(), model.parameters(), None, dir, options)
}

/// Writes the checkpoint that [`Llama::init`] and [`Checkpoint::save`] (without a tokenizer: [`save_model`]) would, but
/// draws each tensor as it is written: no more than one is in memory, however large the model.
///
/// # Errors
/// A configuration that does not fit together, or as [`Checkpoint::save`].
pub fn write_random_model(
    config: &LlamaConfig,
    seed: u64,
    tokenizer: Option<&Tokenizer>,
    dir: impl AsRef<Path>,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    write::random_model(config, seed, tokenizer, dir.as_ref(), options)
}

/// Reads the tokenizer of a checkpoint folder without its weights.
///
/// # Errors
/// A missing or malformed file, or more pieces than `config.json` has embeddings.
pub fn load_tokenizer(dir: impl AsRef<Path>) -> Result<Tokenizer> {
    let dir = dir.as_ref();
    tokenizer(dir, &read::config(dir)?)
}

fn tokenizer(dir: &Path, config: &LlamaConfig) -> Result<Tokenizer> {
    let ids = SpecialIds { bos: config.bos_token_id, eos: config.eos_token_id };
    let tokenizer = Tokenizer::from_dir(dir, ids)?;
    check_vocabulary(config, &tokenizer, dir)?;
    Ok(tokenizer)
}

/// Reads a model without its tokenizer, e.g. a reference model.
///
/// # Errors
/// As [`Checkpoint::load`], the tokenizer aside.
pub fn load_model(dir: impl AsRef<Path>) -> Result<Llama> {
    load_model_with(dir, &LoadOptions::default())
}

/// As [`load_model`], onto a device and in a number format of choice.
///
/// # Errors
/// As [`Checkpoint::load_with`], the tokenizer aside.
pub fn load_model_with(dir: impl AsRef<Path>, options: &LoadOptions) -> Result<Llama> {
    let dir = dir.as_ref();
    read::model(dir, read::config(dir)?, options)
}

/// SHA-256, in hexadecimal, of a folder's `config.json` and weight files: what the model computes.
///
/// # Errors
/// A missing or unreadable file.
pub fn weights_digest(dir: impl AsRef<Path>) -> Result<String> {
    read::digest(dir.as_ref())
}

/// Writes what is lent (weights, master weights, moments) as `stem.safetensors`, or in shards with an index, each file
/// beside its place, synced and renamed. Returns what was written, for [`WrittenFile::check_on_disk`].
///
/// # Errors
/// The folder cannot be written, or what the source reports.
pub fn write_buffers(
    source: &dyn WeightSource,
    dir: impl AsRef<Path>,
    stem: &str,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    write::buffers(source, dir.as_ref(), stem, options)
}

/// Reads what [`write_buffers`] wrote into `buffers`, whose layout and number format may be another's than the writer's
/// only in the latter.
///
/// # Errors
/// Missing or malformed files, missing or misshapen tensors.
pub fn read_buffers(buffers: &FlatBuffers, dir: impl AsRef<Path>, stem: &str) -> Result<()> {
    read::buffers(buffers, dir.as_ref(), stem)
}

/// Reads the tensors of `layout` from what [`write_buffers`] wrote, or from a model's weights (`stem` "model"), one at a
/// time, in the order of the files: `each` gets the numbers of its layer and its view there, and the tensor, flat, in
/// `dtype`, in the host's memory. For those who keep a part of it.
///
/// # Errors
/// As [`read_buffers`], or what `each` reports.
pub fn read_tensors(
    layout: &Layout,
    dtype: WeightDtype,
    dir: impl AsRef<Path>,
    stem: &str,
    each: &mut dyn FnMut(usize, usize, Tensor) -> Result<()>,
) -> Result<()> {
    read::tensors(layout, dtype, dir.as_ref(), stem, each)
}

fn check_vocabulary(config: &LlamaConfig, tokenizer: &Tokenizer, dir: &Path) -> Result<()> {
    for (what, id) in [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())] {
        if id as usize >= config.vocab_size {
            return Err(crate::Error::Tokenizer {
                path: dir.to_owned(),
                reason: format!(
                    "{what} has id {id}, but the model has only {} embeddings; tokenizer and model do not belong together",
                    config.vocab_size
                ),
            });
        }
    }
    Ok(())
}
