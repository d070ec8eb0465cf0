//! Hugging Face checkpoint folders, in and out.

mod read;
mod write;

use std::path::Path;

use crate::config::LlamaConfig;
use crate::error::Result;
use crate::llama::Llama;
use crate::tokenizer::{SpecialIds, Tokenizer};

pub use write::{SaveDtype, WriteOptions, write_file};

/// A model with its tokenizer: what a folder holds and what plays.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The model and its configuration.
    pub model: Llama,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
}

impl Checkpoint {
    /// Reads `config.json`, the tokenizer and the weights (`model.safetensors`, or shards with their index).
    ///
    /// # Errors
    /// A missing or malformed file, missing or misshapen tensors, or more pieces than the model has embeddings.
    pub fn load(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let config = read::config(dir)?;
        let ids = SpecialIds { bos: config.bos_token_id, eos: config.eos_token_id };
        let tokenizer = Tokenizer::from_dir(dir, ids)?;
        check_vocabulary(&config, &tokenizer, dir)?;
        let model = read::model(dir, config)?;
        Ok(Self { model, tokenizer })
    }

    /// Writes the folder; every file is written beside its place and renamed, the weights last.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn save(&self, dir: impl AsRef<Path>, options: WriteOptions) -> Result<()> {
        write::save(self, dir.as_ref(), options)
    }
}

/// Reads a model without its tokenizer, e.g. a reference model.
///
/// # Errors
/// As [`Checkpoint::load`], the tokenizer aside.
pub fn load_model(dir: impl AsRef<Path>) -> Result<Llama> {
    let dir = dir.as_ref();
    read::model(dir, read::config(dir)?)
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
