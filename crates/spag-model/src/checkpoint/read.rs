//! Weights in: one safetensors file or shards with an index, in f32, f16 or bf16, tensor by tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use half::bf16;
use safetensors::tensor::TensorInfo;
use sha2::{Digest, Sha256};

use super::open_file::OpenFile;
use super::tensor_file::in_pieces;
use super::{LoadOptions, WeightDtype};
use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::llama::Llama;
use crate::memory;
use crate::ops::cpu;
use crate::params::{FlatBuffers, Layout};

pub(super) fn config(dir: &Path) -> Result<LlamaConfig> {
    if !dir.is_dir() {
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, "no such checkpoint folder");
        return Err(Error::Io { path: dir.to_owned(), source });
    }
    LlamaConfig::from_file(dir.join("config.json"))
}

pub(super) fn model(dir: &Path, config: LlamaConfig, options: &LoadOptions) -> Result<Llama> {
    let layout = Layout::new(&config);
    memory::require_room_for_weights(&layout, options.dtype, &options.device, dir)?;
    let parameters = FlatBuffers::zeros_of(&layout, options.dtype, &options.device)?;
    buffers(&parameters, dir, "model")?;
    Llama::from_parameters(&config, parameters)
}

/// Fills every view of `buffers` from the files of `stem`.
pub(super) fn buffers(buffers: &FlatBuffers, dir: &Path, stem: &str) -> Result<()> {
    walk(buffers.layout(), dir, stem, &mut |file, info, at| copy_into(file, info, buffers, at))
}

/// Hands out every tensor of `layout` in the files of `stem`, in the host's memory.
pub(super) fn tensors(
    layout: &Layout,
    dtype: WeightDtype,
    dir: &Path,
    stem: &str,
    each: &mut dyn FnMut(usize, usize, Tensor) -> Result<()>,
) -> Result<()> {
    walk(layout, dir, stem, &mut |file, info, (layer, view)| match on_host(file, info, dtype)? {
        Some(tensor) => each(layer, view, tensor).map(Some),
        None => Ok(None),
    })
}

/// Reads a tensor to its place, given as the numbers of its layer and its view; `None` for a number format that is not
/// read.
type ReadTensor<'a> = &'a mut dyn FnMut(&mut OpenFile, &TensorInfo, (usize, usize)) -> Result<Option<()>>;

/// Goes through the tensors of `layout` in the order of the files of `stem`.
fn walk(layout: &Layout, dir: &Path, stem: &str, read: ReadTensor<'_>) -> Result<()> {
    let mut missing: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (l, layer) in layout.layers.iter().enumerate() {
        for (v, view) in layer.views.iter().enumerate() {
            missing.insert(&view.name, (l, v));
        }
    }
    for file in weight_files(dir, stem)? {
        let mut open = OpenFile::open(&file)?;
        // In order, so that of several faults the same one is reported each time.
        for (name, info) in open.tensors() {
            // Tensors that the architecture does not have (old rotary tables, a second tied head) are passed over.
            let Some(at) = missing.remove(name.as_str()) else { continue };
            let expected = &layout.layers[at.0].views[at.1].shape;
            if info.shape != *expected {
                return Err(Error::Shape { path: dir.to_owned(), name, found: info.shape, expected: expected.clone() });
            }
            if read(&mut open, &info, at)?.is_none() {
                return Err(Error::Dtype { path: dir.to_owned(), name, dtype: format!("{:?}", info.dtype) });
            }
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

/// Converts a stored tensor into its place; `None` for a number format that is not read.
///
/// Into host memory as it is read; for any other device the tensor, and no more, is in host memory first.
fn copy_into(
    file: &mut OpenFile,
    info: &TensorInfo,
    buffers: &FlatBuffers,
    (layer, view): (usize, usize),
) -> Result<Option<()>> {
    let mut read = Ok(None);
    if buffers.device().is_cpu() {
        let to = buffers.view(layer, view)?;
        match to.dtype() {
            DType::BF16 => cpu::update_bf16(&to, |out| {
                read = file.read(info, out, bf16::from_f32);
                Ok(())
            })?,
            _ => cpu::update(&to, |out| {
                read = file.read(info, out, |x| x);
                Ok(())
            })?,
        }
        return read;
    }
    let Some(host) = on_host(file, info, buffers.dtype())? else { return Ok(None) };
    buffers.set_view(layer, view, &host)?;
    Ok(Some(()))
}

/// A stored tensor, flat, in the host's memory; `None` for a number format that is not read.
fn on_host(file: &mut OpenFile, info: &TensorInfo, dtype: WeightDtype) -> Result<Option<Tensor>> {
    let len = info.shape.iter().product();
    let (read, tensor) = match dtype {
        WeightDtype::F32 => {
            let mut values = vec![0f32; len];
            (file.read(info, &mut values, |x| x)?, Tensor::from_vec(values, len, &Device::Cpu)?)
        }
        WeightDtype::Bf16 => {
            let mut values = vec![bf16::ZERO; len];
            (file.read(info, &mut values, bf16::from_f32)?, Tensor::from_vec(values, len, &Device::Cpu)?)
        }
    };
    Ok(read.map(|()| tensor))
}
