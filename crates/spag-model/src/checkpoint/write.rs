//! Weights out: safetensors in the dtype asked for, in shards where they are large, atomically.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use candle_core::Tensor;
use serde_json::{Value, json};

use super::WeightDtype;
use super::tensor_file::{self, Listed, TensorAt, WrittenFile};
use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::llama::RandomWeights;
use crate::params::{Layout, WeightSource};
use crate::tokenizer::Tokenizer;

/// How a checkpoint is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Number format of the weights.
    pub dtype: WeightDtype,
    /// Weights beyond this many bytes go to a further shard.
    pub max_shard_bytes: u64,
}

impl WriteOptions {
    /// The given dtype, and Hugging Face's usual 5 GB a shard.
    pub fn new(dtype: WeightDtype) -> Self {
        Self { dtype, max_shard_bytes: 5_000_000_000 }
    }
}

/// Writes `name` in `dir` beside its place, syncs it and renames it, so that a kill leaves the old file or the new one.
///
/// # Errors
/// The file cannot be written; the one that was there stays.
pub fn write_file(dir: &Path, name: &str, contents: &[u8]) -> Result<()> {
    let (path, temporary) = (dir.join(name), dir.join(format!(".{name}.tmp")));
    let written = (|| {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(contents)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)
    })();
    written.map_err(|source| {
        // Best effort: the error that matters is the one being reported.
        let _ = std::fs::remove_file(&temporary);
        Error::Io { path, source }
    })
}

/// `config.json`, the tokenizer's files where there is one, and after them the weights.
pub(super) fn save(
    config: &LlamaConfig,
    weights: &dyn WeightSource,
    tokenizer: Option<&Tokenizer>,
    dir: &Path,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    describe(config, tokenizer, dir, options)?;
    buffers(weights, dir, "model", options)
}

/// What is read before the weights.
fn describe(config: &LlamaConfig, tokenizer: Option<&Tokenizer>, dir: &Path, options: WriteOptions) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let mut config = config.clone();
    if let Some(tokenizer) = tokenizer {
        for (name, contents) in tokenizer.files() {
            write_file(dir, name, contents)?;
        }
        (config.bos_token_id, config.eos_token_id) = (Some(tokenizer.bos()), Some(tokenizer.eos()));
    }
    write_file(dir, "config.json", config_json(config, options.dtype).as_bytes())
}

fn config_json(mut config: LlamaConfig, dtype: WeightDtype) -> String {
    config.num_key_value_heads = Some(config.kv_heads());
    let defaults =
        [("architectures", json!(["LlamaForCausalLM"])), ("model_type", json!("llama")), ("hidden_act", json!("silu"))];
    for (key, value) in defaults {
        config.extra.entry(key).or_insert(value);
    }
    config.extra.insert("torch_dtype".into(), Value::from(dtype.torch_name()));
    // Serialising plain numbers and strings cannot fail.
    serde_json::to_string_pretty(&config).unwrap_or_default() + "\n"
}

/// As [`save`] of a model of random weights, which are drawn as they are written.
pub(super) fn random_model(
    config: &LlamaConfig,
    seed: u64,
    tokenizer: Option<&Tokenizer>,
    dir: &Path,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    config.check()?;
    describe(config, tokenizer, dir, options)?;
    let layout = Layout::new(config);
    let weights = RandomWeights::new(&layout, config.initializer_range, seed);
    tensors(&layout, dir, "model", options, &|layer, view| weights.tensor(layer, view))
}

/// Every view of what `source` lends under its Hugging Face name in `stem.safetensors`, or in shards with their index.
/// Layers are asked for in order, each once.
pub(super) fn buffers(
    source: &dyn WeightSource,
    dir: &Path,
    stem: &str,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    let layout = source.layout();
    // The layer that is on loan, for the views of it that are still to be written.
    let lent: RefCell<Option<(usize, Tensor)>> = RefCell::default();
    let written = tensors(layout, dir, stem, options, &|layer, view| {
        let mut lent = lent.borrow_mut();
        let buffer = match lent.take() {
            Some((index, buffer)) if index == layer => buffer,
            before => {
                if let Some((index, _)) = before {
                    source.reshard(index);
                }
                source.unshard(layer, Some(layer + 1).filter(|next| *next < layout.layers.len()))?
            }
        };
        let tensor = layout.view(&buffer, layer, view);
        *lent = Some((layer, buffer));
        tensor
    });
    if let Some((index, _)) = lent.take() {
        source.reshard(index);
    }
    written
}

/// Every tensor of `layout`, asked for when its turn to be written comes.
fn tensors(
    layout: &Layout,
    dir: &Path,
    stem: &str,
    options: WriteOptions,
    tensor_at: TensorAt<'_>,
) -> Result<Vec<WrittenFile>> {
    let mut shards: Vec<Vec<Listed<'_>>> = vec![Vec::new()];
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
        let written = tensor_file::write(dir, &single, shard, options.dtype, tensor_at)?;
        // An index of an earlier, larger checkpoint would be read no more, but would mislead.
        let _ = std::fs::remove_file(dir.join(index));
        return Ok(vec![written]);
    }
    let (mut map, mut written, count) = (BTreeMap::new(), Vec::new(), shards.len());
    for (number, shard) in shards.iter().enumerate() {
        let file = format!("{stem}-{:05}-of-{count:05}.safetensors", number + 1);
        written.push(tensor_file::write(dir, &file, shard, options.dtype, tensor_at)?);
        map.extend(shard.iter().map(|(_, _, view)| (view.name.clone(), file.clone())));
    }
    let total = layout.len() * options.dtype.bytes();
    let text = json!({"metadata": {"total_size": total}, "weight_map": map});
    write_file(dir, &index, format!("{text:#}\n").as_bytes())?;
    let _ = std::fs::remove_file(dir.join(single));
    Ok(written)
}
