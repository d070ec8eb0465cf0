//! Weights out: safetensors in the dtype asked for, in shards where they are large, atomically.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::tensor_file::{self, Listed, TensorAt, WrittenFile};
use super::{Checkpoint, WeightDtype};
use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::llama::{Llama, RandomWeights};
use crate::params::{FlatBuffers, Layout};
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

pub(super) fn save(checkpoint: &Checkpoint, dir: &Path, options: WriteOptions) -> Result<Vec<WrittenFile>> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    for (name, contents) in checkpoint.tokenizer.files() {
        write_file(dir, name, contents)?;
    }
    let mut config = checkpoint.model.config().clone();
    config.bos_token_id = Some(checkpoint.tokenizer.bos());
    config.eos_token_id = Some(checkpoint.tokenizer.eos());
    model(&checkpoint.model, config, dir, options)
}

/// `config.json` and, after it, the weights.
pub(super) fn model(model: &Llama, config: LlamaConfig, dir: &Path, options: WriteOptions) -> Result<Vec<WrittenFile>> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    write_file(dir, "config.json", config_json(config, options.dtype).as_bytes())?;
    buffers(model.parameters(), dir, "model", options)
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
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let mut config = config.clone();
    if let Some(tokenizer) = tokenizer {
        for (name, contents) in tokenizer.files() {
            write_file(dir, name, contents)?;
        }
        (config.bos_token_id, config.eos_token_id) = (Some(tokenizer.bos()), Some(tokenizer.eos()));
    }
    let layout = Layout::new(&config);
    let weights = RandomWeights::new(&layout, config.initializer_range, seed);
    write_file(dir, "config.json", config_json(config, options.dtype).as_bytes())?;
    tensors(&layout, dir, "model", options, &|layer, view| weights.tensor(layer, view))
}

/// Every view of `buffers` under its Hugging Face name in `stem.safetensors`, or in shards with their index.
pub(super) fn buffers(
    buffers: &FlatBuffers,
    dir: &Path,
    stem: &str,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    tensors(buffers.layout(), dir, stem, options, &|layer, view| buffers.view(layer, view))
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
