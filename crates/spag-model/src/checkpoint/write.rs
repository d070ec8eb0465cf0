//! Writes checkpoints: safetensors in a given number format, sharded if large, each file atomically.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use rustix::fs::statvfs;
use serde_json::{Map, Value, json};
use spag_io::write_atomically;

use super::WeightDtype;
use super::tensor_file::{self, TensorEntry, TensorProvider, WrittenFile};
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::memory;
use crate::model::{Model, RandomWeights};
use crate::params::{Layout, WeightSource};
use crate::tokenizer::Tokenizer;

/// Format of a written checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Number format of the weights.
    pub dtype: WeightDtype,
    /// Maximum bytes of a shard.
    pub max_shard_bytes: u64,
}

impl WriteOptions {
    /// A given number format, with Hugging Face's default of 5 GB per shard.
    pub fn new(dtype: WeightDtype) -> Self {
        Self { dtype, max_shard_bytes: 5_000_000_000 }
    }
}

/// As [`Checkpoint::save`](super::Checkpoint::save), for weights of any source. Layers are unsharded once, in order.
///
/// # Errors
/// As [`Checkpoint::save`](super::Checkpoint::save), or a failure of the weight source.
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

/// Writes the same checkpoint as [`Model::init`] with [`save_checkpoint`], one tensor at a time, so that the model need
/// not fit into memory.
///
/// # Errors
/// An inconsistent configuration, too little memory or space on the disk, or as
/// [`Checkpoint::save`](super::Checkpoint::save).
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
    let weights = RandomWeights::new(&layout, config.initializer_range, seed);
    write_tensors(&layout, dir.as_ref(), "model", options, &|layer, view| weights.tensor(layer, view))
}

/// Refuses a model whose files do not fit on the disk of `dir`, or whose largest tensor does not fit into memory.
fn require_room(layout: &Layout, dir: &Path, dtype: WeightDtype) -> Result<()> {
    let needed = memory::weight_bytes(layout, dtype);
    // The folder may not exist yet, and not every file system knows what is free.
    let on_disk = dir
        .ancestors()
        .find_map(|folder| statvfs(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok());
    if let Some(disk) = on_disk
        && disk.f_bavail.saturating_mul(disk.f_frsize) < needed
    {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        return Err(Error::Disk { path: dir.to_owned(), needed, free });
    }
    let views = layout.layers.iter().flat_map(|layer| &layer.views);
    let largest = views.map(|view| view.len() as u64).max().unwrap_or(0);
    // In f32, and as the bytes that are written.
    let bytes = largest.saturating_mul(4 + dtype.bytes() as u64);
    memory::require_room(bytes, &Device::Cpu, || "the largest tensor of this model".into(), "choose a smaller model")
}

/// Writes the tokenizer's files and `config.json`.
fn write_config(config: &ModelConfig, tokenizer: Option<&Tokenizer>, dir: &Path, options: WriteOptions) -> Result<()> {
    let mut keys = config.keys().clone();
    if let Some(tokenizer) = tokenizer {
        for (name, contents) in tokenizer.files() {
            write_atomically(dir.join(name), contents)?;
        }
        keys.insert("bos_token_id".into(), tokenizer.bos().into());
        // Further ids of the configuration end a completion too, and stay.
        if !config.eos_token_ids.contains(&tokenizer.eos()) {
            keys.insert("eos_token_id".into(), tokenizer.eos().into());
        }
    }
    Ok(write_atomically(dir.join("config.json"), config_json(keys, options.dtype))?)
}

/// `config.json` with the number format of the weights: under the key of transformers 5 if the source has it, else under the
/// older one.
fn config_json(mut keys: Map<String, Value>, dtype: WeightDtype) -> String {
    let key = if keys.contains_key("dtype") { "dtype" } else { "torch_dtype" };
    for name in ["dtype", "torch_dtype"] {
        if name == key || keys.contains_key(name) {
            keys.insert(name.into(), dtype.torch_name().into());
        }
    }
    // Serializing plain numbers and strings cannot fail.
    serde_json::to_string_pretty(&keys).unwrap_or_default() + "\n"
}

/// Writes all tensors of `source` (weights, master weights, moments) under their Hugging Face names to
/// `stem.safetensors`, or to shards with an index. Layers are unsharded once, in order.
///
/// # Errors
/// The folder cannot be written, or a failure of the weight source.
pub fn write_buffers(
    source: &dyn WeightSource,
    dir: impl AsRef<Path>,
    stem: &str,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    let layout = source.layout();
    // The unsharded layer, kept until all of its views are written.
    let current: RefCell<Option<(usize, Tensor)>> = RefCell::default();
    let written = write_tensors(layout, dir.as_ref(), stem, options, &|layer, view| {
        let mut current = current.borrow_mut();
        let buffer = match current.take() {
            Some((index, buffer)) if index == layer => buffer,
            previous => {
                if let Some((index, _)) = previous {
                    source.reshard(index);
                }
                source.unshard(layer, Some(layer + 1).filter(|next| *next < layout.layers.len()))?
            }
        };
        let tensor = layout.view(&buffer, layer, view);
        *current = Some((layer, buffer));
        tensor
    });
    if let Some((index, _)) = current.take() {
        source.reshard(index);
    }
    written
}

/// Writes every tensor of `layout`, in order.
fn write_tensors(
    layout: &Layout,
    dir: &Path,
    stem: &str,
    options: WriteOptions,
    tensors: TensorProvider<'_>,
) -> Result<Vec<WrittenFile>> {
    let mut shards: Vec<Vec<TensorEntry<'_>>> = vec![Vec::new()];
    let mut filled = 0u64;
    for (l, layer) in layout.layers.iter().enumerate() {
        for (v, view) in layer.views.iter().enumerate() {
            let bytes = (view.len() * options.dtype.bytes()) as u64;
            if filled > 0 && filled + bytes > options.max_shard_bytes {
                shards.push(Vec::new());
                filled = 0;
            }
            filled += bytes;
            if let Some(shard) = shards.last_mut() {
                shard.push((l, v, view));
            }
        }
    }
    let (single, index) = (format!("{stem}.safetensors"), format!("{stem}.safetensors.index.json"));
    if let [shard] = shards.as_slice() {
        let written = tensor_file::write(dir, &single, shard, options.dtype, tensors)?;
        // Removes the unused index of an earlier checkpoint.
        let _ = std::fs::remove_file(dir.join(index));
        return Ok(vec![written]);
    }
    let (mut map, mut written, count) = (BTreeMap::new(), Vec::new(), shards.len());
    for (number, shard) in shards.iter().enumerate() {
        let file = format!("{stem}-{:05}-of-{count:05}.safetensors", number + 1);
        written.push(tensor_file::write(dir, &file, shard, options.dtype, tensors)?);
        map.extend(shard.iter().map(|(_, _, view)| (view.name.clone(), file.clone())));
    }
    let total = layout.len() * options.dtype.bytes();
    let text = json!({"metadata": {"total_size": total}, "weight_map": map});
    write_atomically(dir.join(index), format!("{text:#}\n"))?;
    let _ = std::fs::remove_file(dir.join(single));
    Ok(written)
}
