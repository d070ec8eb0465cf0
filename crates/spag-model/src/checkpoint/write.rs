//! Writes checkpoints: tokenizer files, `config.json`, and the weights in a given number format.

use std::path::Path;

use candle_core::Device;
use spag_io::{write_atomically, write_json_atomically};

use super::options::WriteOptions;
use super::shards::{write_buffers, write_tensors};
use super::tensor_file::WrittenFile;
use crate::config::ModelConfig;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::model::{Model, RandomWeights};
use crate::params::{Layout, WeightSource};
use crate::tokenizer::Tokenizer;

/// [`Checkpoint::save`](super::Checkpoint::save) for weights of any source. Layers are unsharded once, in order.
///
/// # Errors
/// As [`Checkpoint::save`](super::Checkpoint::save), or the weight source fails.
pub fn save_checkpoint(
    config: &ModelConfig,
    weights: &dyn WeightSource,
    tokenizer: Option<&Tokenizer>,
    dir: impl AsRef<Path>,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    write_config(config, tokenizer, dir.as_ref(), options)?;
    write_buffers(weights, dir, "model", options)
}

/// Writes a model without a tokenizer: `config.json` and the weights.
pub fn save_model(model: &Model, dir: impl AsRef<Path>, options: WriteOptions) -> Result<Vec<WrittenFile>> {
    save_checkpoint(model.config(), model.parameters(), None, dir, options)
}

/// Writes the same checkpoint as [`Model::init`] with [`save_checkpoint`], one tensor at a time, so that the model may
/// exceed memory.
///
/// # Errors
/// An inconsistent configuration, out of memory or disk space, or as [`Checkpoint::save`](super::Checkpoint::save).
pub fn write_random_model(
    config: &ModelConfig,
    seed: u64,
    tokenizer: Option<&Tokenizer>,
    dir: impl AsRef<Path>,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    let layout = Layout::new(&config.architecture);
    require_room(&layout, dir.as_ref(), options.dtype)?;
    write_config(config, tokenizer, dir.as_ref(), options)?;
    let weights = RandomWeights::new(&layout, config, seed);
    write_tensors(&layout, dir.as_ref(), "model", options, &|layer, view| weights.tensor(layer, view))
}

/// Checks that the model's files fit on the disk of `dir`, and its largest tensor into memory.
fn require_room(layout: &Layout, dir: &Path, dtype: WeightDtype) -> Result<()> {
    let needed = layout.bytes(dtype);
    if let Some(free) = spag_io::free_disk(dir).filter(|free| *free < needed) {
        return Err(Error::Disk { path: dir.to_owned(), needed, free });
    }
    let views = layout.layers.iter().flat_map(|layer| &layer.views);
    let largest = views.map(|view| view.len() as u64).max().unwrap_or(0);
    // In f32, and as the written bytes.
    let bytes = largest.saturating_mul(4 + dtype.bytes() as u64);
    let what = || "the largest tensor of this model".into();
    Ok(spag_ops::require_room(bytes, &Device::Cpu, what, "choose a smaller model")?)
}

/// Writes the tokenizer's files and `config.json`.
///
/// # Errors
/// The folder cannot be written.
pub fn write_config(
    config: &ModelConfig,
    tokenizer: Option<&Tokenizer>,
    dir: &Path,
    options: WriteOptions,
) -> Result<()> {
    let mut keys = config.keys().clone();
    if let Some(tokenizer) = tokenizer {
        for (name, contents) in tokenizer.files() {
            write_atomically(dir.join(name), contents)?;
        }
        // If the tokenizer has no BOS, the configuration keeps its own.
        if let Some(bos) = tokenizer.bos_token() {
            keys.insert("bos_token_id".into(), bos.into());
        }
        // Other EOS ids of the configuration also end a completion, and are kept.
        if !config.eos_token_ids.contains(&tokenizer.eos()) {
            keys.insert("eos_token_id".into(), tokenizer.eos().into());
        }
    }
    // The number format uses the key of transformers 5 if the source has it, else the older key.
    let key = if keys.contains_key("dtype") { "dtype" } else { "torch_dtype" };
    for name in ["dtype", "torch_dtype"] {
        if name == key || keys.contains_key(name) {
            keys.insert(name.into(), options.dtype.torch_name().into());
        }
    }
    Ok(write_json_atomically(dir.join("config.json"), &keys)?)
}
