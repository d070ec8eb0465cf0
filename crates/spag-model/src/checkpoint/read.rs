//! Weights in: one safetensors file or shards with an index, in f32, f16 or bf16.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use sha2::{Digest, Sha256};

use super::tensor_file::in_pieces;
use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::llama::Llama;
use crate::ops::cpu;
use crate::params::{FlatBuffers, Layout};

pub(super) fn config(dir: &Path) -> Result<LlamaConfig> {
    if !dir.is_dir() {
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, "no such checkpoint folder");
        return Err(Error::Io { path: dir.to_owned(), source });
    }
    LlamaConfig::from_file(dir.join("config.json"))
}

pub(super) fn model(dir: &Path, config: LlamaConfig) -> Result<Llama> {
    let parameters = FlatBuffers::zeros(&Layout::new(&config), &Device::Cpu)?;
    buffers(&parameters, dir, "model")?;
    Llama::from_parameters(&config, parameters)
}

/// Fills every view of `buffers` from the files of `stem`.
pub(super) fn buffers(buffers: &FlatBuffers, dir: &Path, stem: &str) -> Result<()> {
    let layout = buffers.layout();
    let mut missing: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (l, layer) in layout.layers.iter().enumerate() {
        for (v, view) in layer.views.iter().enumerate() {
            missing.insert(&view.name, (l, v));
        }
    }
    for file in weight_files(dir, stem)? {
        // One file at a time in memory beside the buffers.
        let bytes = std::fs::read(&file).map_err(Error::io(&file))?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|e| Error::Safetensors { path: file.clone(), reason: e.to_string() })?;
        // In order, so that of several faults the same one is reported each time.
        let mut names: Vec<&str> = tensors.names().into_iter().collect();
        names.sort_unstable();
        for name in names {
            // Tensors that the architecture does not have (old rotary tables, a second tied head) are passed over.
            let Some((l, v)) = missing.remove(name) else { continue };
            let tensor =
                tensors.tensor(name).map_err(|e| Error::Safetensors { path: file.clone(), reason: e.to_string() })?;
            let view = buffers.view(l, v)?;
            if tensor.shape() != view.dims() {
                return Err(Error::Shape {
                    path: dir.to_owned(),
                    name: name.to_owned(),
                    found: tensor.shape().to_vec(),
                    expected: view.dims().to_vec(),
                });
            }
            copy_into(dir, name, &tensor, &view)?;
        }
    }
    match missing.into_keys().next() {
        // The embedding and the head are layers too.
        Some(name) => Err(Error::MissingTensor {
            path: dir.to_owned(),
            name: name.to_owned(),
            layers: layout.layers.len().saturating_sub(2),
        }),
        None => Ok(()),
    }
}

pub(super) fn digest(dir: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut files = vec![dir.join("config.json")];
    files.extend(weight_files(dir, "model")?);
    for path in files {
        in_pieces(&path, |piece| hash.update(piece))?;
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The safetensors files of a folder: the single file, or every shard that the index names.
fn weight_files(dir: &Path, stem: &str) -> Result<Vec<PathBuf>> {
    let single = dir.join(format!("{stem}.safetensors"));
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = dir.join(format!("{stem}.safetensors.index.json"));
    if !index.is_file() && stem != "model" {
        return Err(Error::Io { path: single, source: std::io::ErrorKind::NotFound.into() });
    }
    if !index.is_file() {
        return Err(Error::MissingFile {
            path: dir.to_owned(),
            what: "weights",
            expected: "model.safetensors, or model.safetensors.index.json with its shards \
                       (pytorch_model.bin can be converted with transformers: save_pretrained)",
        });
    }
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let text = std::fs::read_to_string(&index).map_err(Error::io(&index))?;
    let parsed: Index =
        serde_json::from_str(&text).map_err(|source| Error::Json { path: index, what: "safetensors index", source })?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Converts a stored tensor into its place.
fn copy_into(dir: &Path, name: &str, from: &TensorView<'_>, to: &Tensor) -> Result<()> {
    let known = match to.dtype() {
        DType::BF16 => cpu::update_bf16(to, |out| Ok(fill(from, out, half::bf16::from_f32)))?,
        _ => cpu::update(to, |out| Ok(fill(from, out, |x| x)))?,
    };
    known.ok_or_else(|| Error::Dtype {
        path: dir.to_owned(),
        name: name.to_owned(),
        dtype: format!("{:?}", from.dtype()),
    })
}

/// Every stored number as a `T`; `None` for a number format that is not read.
fn fill<T>(from: &TensorView<'_>, out: &mut [T], narrow: impl Fn(f32) -> T) -> Option<()> {
    fn each<T, const N: usize>(bytes: &[u8], out: &mut [T], read: impl Fn([u8; N]) -> T) {
        bytes.as_chunks().0.iter().zip(out).for_each(|(bytes, out)| *out = read(*bytes));
    }
    let bytes = from.data();
    match from.dtype() {
        Dtype::F32 => each(bytes, out, |b| narrow(f32::from_le_bytes(b))),
        Dtype::BF16 => each(bytes, out, |b| narrow(half::bf16::from_le_bytes(b).to_f32())),
        Dtype::F16 => each(bytes, out, |b| narrow(half::f16::from_le_bytes(b).to_f32())),
        _ => return None,
    }
    Some(())
}
