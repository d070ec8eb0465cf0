//! Reads weights from one safetensors file or from shards with an index, one tensor at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use half::bf16;
use safetensors::tensor::TensorInfo;
use sha2::{Digest, Sha256};

use super::open_file::OpenFile;
use super::tensor_file::read_chunks;
use super::{LoadOptions, WeightDtype};
use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::llama::Llama;
use crate::memory;
use crate::ops::cpu;
use crate::params::{FlatBuffers, Layout};
use crate::tokenizer::{SpecialIds, Tokenizer};

/// Reads the tokenizer of a checkpoint folder.
///
/// # Errors
/// A missing or malformed file, or special tokens outside the model's vocabulary.
pub fn load_tokenizer(dir: impl AsRef<Path>) -> Result<Tokenizer> {
    let dir = dir.as_ref();
    let config = read_config(dir)?;
    let tokenizer = Tokenizer::from_dir(dir, SpecialIds { bos: config.bos_token_id, eos: config.eos_token_id })?;
    for (what, id) in [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())] {
        if id as usize >= config.vocab_size {
            return Err(Error::Tokenizer {
                path: dir.to_owned(),
                reason: format!(
                    "{what} has id {id}, but the model has only {} embeddings; tokenizer and model do not belong together",
                    config.vocab_size
                ),
            });
        }
    }
    Ok(tokenizer)
}

/// Reads a model without its tokenizer, e.g. a reference model, as f32 on the CPU.
///
/// # Errors
/// As [`Checkpoint::load`](super::Checkpoint::load), except for the tokenizer.
pub fn load_model(dir: impl AsRef<Path>) -> Result<Llama> {
    load_model_with(dir, &LoadOptions::default())
}

/// As [`load_model`], with a given device and number format.
///
/// # Errors
/// As [`Checkpoint::load_with`](super::Checkpoint::load_with), except for the tokenizer.
pub fn load_model_with(dir: impl AsRef<Path>, options: &LoadOptions) -> Result<Llama> {
    let dir = dir.as_ref();
    let config = read_config(dir)?;
    let layout = Layout::new(&config);
    memory::require_room_for_weights(&layout, options.dtype, &options.device, dir)?;
    let parameters = FlatBuffers::zeros_of(&layout, options.dtype, &options.device)?;
    read_buffers(&parameters, dir, "model")?;
    Llama::from_parameters(&config, parameters)
}

fn read_config(dir: &Path) -> Result<LlamaConfig> {
    if !dir.is_dir() {
        let error = std::io::Error::new(std::io::ErrorKind::NotFound, "no such checkpoint folder");
        return Err(spag_io::Error::io(dir)(error).into());
    }
    LlamaConfig::from_file(dir.join("config.json"))
}

/// Reads what [`write_buffers`](super::write_buffers) wrote into `buffers` of the same layout. The number format may
/// differ.
///
/// # Errors
/// Missing or malformed files, missing or misshapen tensors.
pub fn read_buffers(buffers: &FlatBuffers, dir: impl AsRef<Path>, stem: &str) -> Result<()> {
    for_each_tensor(buffers.layout(), dir.as_ref(), stem, &mut |file, info, at| copy_into(file, info, buffers, at))
}

/// Reads the tensors of `layout` from the files of `stem` ("model" for a model's weights) one at a time, in file order.
/// `each` gets the indices of layer and view, and the flat tensor in `dtype` on the CPU. Used to read shards.
///
/// # Errors
/// As [`read_buffers`], or an error of `each`.
pub fn read_tensors(
    layout: &Layout,
    dtype: WeightDtype,
    dir: impl AsRef<Path>,
    stem: &str,
    each: &mut dyn FnMut(usize, usize, Tensor) -> Result<()>,
) -> Result<()> {
    for_each_tensor(layout, dir.as_ref(), stem, &mut |file, info, (layer, view)| match on_host(file, info, dtype)? {
        Some(tensor) => each(layer, view, tensor).map(Some),
        None => Ok(None),
    })
}

/// SHA-256, in hexadecimal, of a folder's `config.json` and weight files.
pub fn weights_digest(dir: impl AsRef<Path>) -> Result<String> {
    let dir = dir.as_ref();
    let mut hash = Sha256::new();
    let mut files = vec![dir.join("config.json")];
    files.extend(weight_files(dir, "model")?);
    for path in files {
        read_chunks(&path, |chunk| hash.update(chunk))?;
    }
    Ok(spag_io::hex(&hash.finalize()))
}

/// Reads a tensor, given the indices of its layer and view. Returns `None` if its number format is not supported.
type TensorReader<'a> = &'a mut dyn FnMut(&mut OpenFile, &TensorInfo, (usize, usize)) -> Result<Option<()>>;

/// Calls `read` for every tensor of `layout`, in the order of the files of `stem`.
fn for_each_tensor(layout: &Layout, dir: &Path, stem: &str, read: TensorReader<'_>) -> Result<()> {
    let mut missing: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (l, layer) in layout.layers.iter().enumerate() {
        for (v, view) in layer.views.iter().enumerate() {
            missing.insert(&view.name, (l, v));
        }
    }
    for file in weight_files(dir, stem)? {
        let mut open = OpenFile::open(&file)?;
        // Sorted, so that the same one of several errors is always reported.
        for (name, info) in open.tensors() {
            // Unknown tensors (old rotary tables, a second copy of a tied head) are skipped.
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
        Some(name) => Err(Error::MissingTensor {
            path: dir.to_owned(),
            name: name.to_owned(),
            // The embedding and the head are layers too.
            layers: layout.layers.len().saturating_sub(2),
        }),
        None => Ok(()),
    }
}

/// The safetensors files of a folder: the single file, or all shards of the index.
fn weight_files(dir: &Path, stem: &str) -> Result<Vec<PathBuf>> {
    let single = dir.join(format!("{stem}.safetensors"));
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = dir.join(format!("{stem}.safetensors.index.json"));
    if !index.is_file() && stem != "model" {
        return Err(spag_io::Error::io(&single)(std::io::ErrorKind::NotFound.into()).into());
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
    let text = std::fs::read_to_string(&index).map_err(spag_io::Error::io(&index))?;
    let parsed: Index =
        serde_json::from_str(&text).map_err(|source| Error::Json { path: index, what: "safetensors index", source })?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Reads a stored tensor into its view; `None` if its number format is not supported.
///
/// On a CPU it is read into the buffer directly; for other devices the tensor is read into host memory first.
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

/// Reads a stored tensor, flat, into host memory; `None` if its number format is not supported.
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
