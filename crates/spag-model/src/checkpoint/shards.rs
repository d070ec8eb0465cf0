//! Writes tensors to one safetensors file, or to shards with an index. Each file is written atomically, and at every
//! moment the folder holds the earlier tensors, the new ones, or none that a reader accepts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use candle_core::Tensor;
use serde_json::json;
use spag_io::write_json_atomically;

use super::options::WriteOptions;
use super::tensor_file::{self, TensorEntry, TensorProvider, WrittenFile};
use crate::error::Result;
use crate::params::{Layout, WeightSource};

/// Writes all tensors of `source` (weights, master weights, moments) under their Hugging Face names to
/// `stem.safetensors`, or to shards with an index. Layers are unsharded once, in order.
///
/// # Errors
/// The folder cannot be written, or the weight source fails.
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
pub(super) fn write_tensors(
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
    let (single, index) = (dir.join(format!("{stem}.safetensors")), dir.join(format!("{stem}.safetensors.index.json")));
    if let [shard] = shards.as_slice() {
        let written = tensor_file::write(dir, &format!("{stem}.safetensors"), shard, options.dtype, tensors)?;
        // A single file takes precedence over an index, so leftovers of an earlier checkpoint only take space.
        let _ = fs::remove_file(index);
        remove_other_shards(dir, stem, 0);
        return Ok(vec![written]);
    }
    // Shards may replace those of an earlier checkpoint one by one: without an index, no reader accepts the mixture.
    remove(&index)?;
    let (mut map, mut written, count) = (BTreeMap::new(), Vec::new(), shards.len());
    for (number, shard) in shards.iter().enumerate() {
        let file = shard_name(stem, number + 1, count);
        written.push(tensor_file::write(dir, &file, shard, options.dtype, tensors)?);
        map.extend(shard.iter().map(|(_, _, view)| (view.name.clone(), file.clone())));
    }
    let total = layout.len() * options.dtype.bytes();
    let contents = json!({"metadata": {"total_size": total}, "weight_map": map});
    // A single file of an earlier checkpoint would take precedence over the index.
    remove(&single)?;
    write_json_atomically(&index, &contents)?;
    remove_other_shards(dir, stem, count);
    Ok(written)
}

fn shard_name(stem: &str, number: usize, count: usize) -> String {
    format!("{stem}-{number:05}-of-{count:05}.safetensors")
}

/// Removes a file if it exists.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(spag_io::Error::io(path)(error).into()),
        _ => Ok(()),
    }
}

/// Removes shards of an earlier checkpoint that are not among the `count` new ones. Best effort: no index names them,
/// but some programs read every safetensors file of a folder.
fn remove_other_shards(dir: &Path, stem: &str, count: usize) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let numbers = name
            .to_str()
            .and_then(|name| {
                name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".safetensors")?.split_once("-of-")
            })
            .and_then(|(number, count)| Some((number.parse::<usize>().ok()?, count.parse::<usize>().ok()?)));
        if numbers.is_some_and(|(number, of)| of != count && name == *shard_name(stem, number, of)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
