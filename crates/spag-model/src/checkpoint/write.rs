//! Weights out: safetensors in the dtype asked for, in shards where they are large, atomically.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Checkpoint;
use crate::error::{Error, Result};
use crate::ops::cpu;

/// Number format of saved weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveDtype {
    /// 32 bits: exactly what was trained.
    #[default]
    F32,
    /// 16 bits with f32's range, rounded to nearest even.
    Bf16,
}

impl std::str::FromStr for SaveDtype {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "f32" | "float32" => Ok(Self::F32),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            other => Err(format!("unknown number format \"{other}\"; f32 and bf16 are known")),
        }
    }
}

/// How a checkpoint is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Number format of the weights.
    pub dtype: SaveDtype,
    /// Weights beyond this many bytes go to a further shard.
    pub max_shard_bytes: u64,
}

impl WriteOptions {
    /// The given dtype, and Hugging Face's usual 5 GB a shard.
    pub fn new(dtype: SaveDtype) -> Self {
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

pub(super) fn save(checkpoint: &Checkpoint, dir: &Path, options: WriteOptions) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    for (name, contents) in checkpoint.tokenizer.files() {
        write_file(dir, name, contents)?;
    }
    write_file(dir, "config.json", config_json(checkpoint, options.dtype).as_bytes())?;
    weights(checkpoint, dir, options)
}

fn config_json(checkpoint: &Checkpoint, dtype: SaveDtype) -> String {
    let mut config = checkpoint.model.config().clone();
    config.num_key_value_heads = Some(config.kv_heads());
    config.bos_token_id = Some(checkpoint.tokenizer.bos());
    config.eos_token_id = Some(checkpoint.tokenizer.eos());
    let dtype = match dtype {
        SaveDtype::F32 => "float32",
        SaveDtype::Bf16 => "bfloat16",
    };
    let defaults =
        [("architectures", json!(["LlamaForCausalLM"])), ("model_type", json!("llama")), ("hidden_act", json!("silu"))];
    for (key, value) in defaults {
        config.extra.entry(key).or_insert(value);
    }
    config.extra.insert("torch_dtype".into(), Value::from(dtype));
    // Serialising plain numbers and strings cannot fail.
    serde_json::to_string_pretty(&config).unwrap_or_default() + "\n"
}

fn weights(checkpoint: &Checkpoint, dir: &Path, options: WriteOptions) -> Result<()> {
    let size = match options.dtype {
        SaveDtype::F32 => 4,
        SaveDtype::Bf16 => 2,
    };
    let named = checkpoint.model.parameters().named()?;
    let mut shards: Vec<Vec<(String, candle_core::Tensor)>> = vec![Vec::new()];
    let mut filled = 0u64;
    for (name, tensor) in named {
        let bytes = (tensor.elem_count() * size) as u64;
        if filled > 0 && filled + bytes > options.max_shard_bytes {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push((name, tensor));
        }
    }
    if let [single] = shards.as_slice() {
        write_file(dir, "model.safetensors", &shard_bytes(dir, single, options.dtype)?)?;
        // An index of an earlier, larger checkpoint would be read no more, but would mislead.
        let _ = std::fs::remove_file(dir.join("model.safetensors.index.json"));
        return Ok(());
    }
    let (mut map, count) = (BTreeMap::new(), shards.len());
    for (index, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{count:05}.safetensors", index + 1);
        write_file(dir, &file, &shard_bytes(dir, shard, options.dtype)?)?;
        map.extend(shard.iter().map(|(name, _)| (name.clone(), file.clone())));
    }
    let total = checkpoint.model.parameters().layout().len() * size;
    let index = json!({"metadata": {"total_size": total}, "weight_map": map});
    write_file(dir, "model.safetensors.index.json", format!("{index:#}\n").as_bytes())?;
    let _ = std::fs::remove_file(dir.join("model.safetensors"));
    Ok(())
}

fn shard_bytes(dir: &Path, shard: &[(String, candle_core::Tensor)], dtype: SaveDtype) -> Result<Vec<u8>> {
    let mut data = Vec::with_capacity(shard.len());
    for (_, tensor) in shard {
        data.push(cpu::read(tensor, |values| {
            Ok(match dtype {
                SaveDtype::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
                SaveDtype::Bf16 => values.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
            })
        })?);
    }
    let kind = match dtype {
        SaveDtype::F32 => Dtype::F32,
        SaveDtype::Bf16 => Dtype::BF16,
    };
    let failed = |e: safetensors::SafeTensorError| Error::Safetensors { path: dir.to_owned(), reason: e.to_string() };
    let mut views = Vec::with_capacity(shard.len());
    for ((name, tensor), bytes) in shard.iter().zip(&data) {
        views.push((name.as_str(), TensorView::new(kind, tensor.dims().to_vec(), bytes).map_err(failed)?));
    }
    // transformers refuses files without this entry.
    let metadata = [("format".to_owned(), "pt".to_owned())].into_iter().collect();
    safetensors::serialize(views, Some(metadata)).map_err(failed)
}
