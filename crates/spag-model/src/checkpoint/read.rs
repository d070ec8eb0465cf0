//! Reads weights from one file or from shards with an index, one tensor at a time.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use half::bf16;
use sha2::{Digest, Sha256};

use super::tensor_file::read_chunks;
use super::weight_file::{Stored, WeightFile};
use super::weight_files::{self, WeightFiles};
use super::{LoadOptions, WeightDtype, python_files};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::memory;
use crate::model::Model;
use crate::ops::cpu;
use crate::params::{FlatBuffers, Layout};
use crate::tokenizer::{SpecialIds, Tokenizer};

/// Reads the tokenizer of a checkpoint folder, with the files that a saved folder carries.
///
/// # Errors
/// A missing or malformed file, or special tokens outside the model's vocabulary.
pub fn load_tokenizer(dir: impl AsRef<Path>) -> Result<Tokenizer> {
    let dir = dir.as_ref();
    let config = read_config(dir)?;
    let tokenizer = Tokenizer::from_dir(dir, SpecialIds::from(&config))?;
    Ok(tokenizer.for_embeddings(config.architecture.vocab_size)?.with_files(python_files(dir)?))
}

/// Reads a model without its tokenizer, e.g. a reference model, as f32 on the CPU.
///
/// # Errors
/// As [`Checkpoint::load`](super::Checkpoint::load), except for the tokenizer.
pub fn load_model(dir: impl AsRef<Path>) -> Result<Model> {
    load_model_with(dir, &LoadOptions::default())
}

/// As [`load_model`], with a given device and number format.
///
/// # Errors
/// As [`Checkpoint::load_with`](super::Checkpoint::load_with), except for the tokenizer.
pub fn load_model_with(dir: impl AsRef<Path>, options: &LoadOptions) -> Result<Model> {
    let dir = dir.as_ref();
    let config = read_config(dir)?;
    let layout = Layout::new(&config.architecture);
    // Before anything is allocated: the configuration may ask for sizes that the weights do not have.
    WeightFiles::open(dir, "model")?.check(&layout)?;
    memory::require_room_for_weights(&layout, options.dtype, &options.device, dir)?;
    let parameters = FlatBuffers::zeros_of(&layout, options.dtype, &options.device)?;
    read_buffers(&parameters, dir, "model")?;
    Model::from_parameters(&config, parameters)
}

/// Checks that a folder's weight files hold exactly the tensors of its `config.json`, from their headers. Returns the
/// configuration, whose sizes are then those of the weights.
///
/// # Errors
/// Missing or malformed files, or tensors that are missing, misshapen or not used.
pub fn check_checkpoint(dir: impl AsRef<Path>) -> Result<ModelConfig> {
    let dir = dir.as_ref();
    let config = read_config(dir)?;
    WeightFiles::open(dir, "model")?.check(&Layout::new(&config.architecture))?;
    Ok(config)
}

fn read_config(dir: &Path) -> Result<ModelConfig> {
    let io = spag_io::Error::io(dir);
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => ModelConfig::from_file(dir.join("config.json")),
        Ok(_) => {
            let error = std::io::Error::new(ErrorKind::NotADirectory, "this is a file; a checkpoint is a folder");
            Err(io(error).into())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(io(std::io::Error::new(ErrorKind::NotFound, "no such checkpoint folder")).into())
        }
        Err(error) => Err(io(error).into()),
    }
}

/// Reads what [`write_buffers`](super::write_buffers) wrote into `buffers` of the same layout. The number format may
/// differ.
///
/// # Errors
/// Missing or malformed files; missing, misshapen or unused tensors; weights that are not finite.
pub fn read_buffers(buffers: &FlatBuffers, dir: impl AsRef<Path>, stem: &str) -> Result<()> {
    let files = WeightFiles::open(dir.as_ref(), stem)?;
    files.read(buffers.layout(), |file, reader, tensor, at| copy_into(file, reader, tensor, buffers, at))
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
    WeightFiles::open(dir.as_ref(), stem)?
        .read(layout, |file, reader, tensor, (layer, view)| each(layer, view, on_host(file, reader, tensor, dtype)?))
}

/// SHA-256, in hexadecimal, of a folder's `config.json` and weight files.
pub fn weights_digest(dir: impl AsRef<Path>) -> Result<String> {
    let dir = dir.as_ref();
    let mut hash = Sha256::new();
    let mut files = vec![dir.join("config.json")];
    files.extend(weight_files::paths(dir, "model")?);
    for path in files {
        read_chunks(&path, |chunk| hash.update(chunk))?;
    }
    Ok(spag_io::hex(&hash.finalize()))
}

/// Reads a stored tensor into its view.
///
/// On a CPU it is read into the buffer directly; for other devices the tensor is read into host memory first.
fn copy_into(
    file: &WeightFile,
    reader: &mut File,
    tensor: Stored<'_>,
    buffers: &FlatBuffers,
    (layer, view): (usize, usize),
) -> Result<()> {
    if !buffers.device().is_cpu() {
        return buffers.set_view(layer, view, &on_host(file, reader, tensor, buffers.dtype())?);
    }
    let mut read = Ok(());
    let to = buffers.view(layer, view)?;
    match to.dtype() {
        DType::BF16 => cpu::update_bf16(&to, |out| {
            read = file.read(reader, tensor, out, bf16::from_f32);
            Ok(())
        })?,
        _ => cpu::update(&to, |out| {
            read = file.read(reader, tensor, out, |x| x);
            Ok(())
        })?,
    }
    read
}

/// Reads a stored tensor, flat, into host memory.
fn on_host(file: &WeightFile, reader: &mut File, tensor: Stored<'_>, dtype: WeightDtype) -> Result<Tensor> {
    let len = tensor.info.shape.iter().product();
    match dtype {
        WeightDtype::F32 => {
            let mut values = vec![0f32; len];
            file.read(reader, tensor, &mut values, |x| x)?;
            Ok(Tensor::from_vec(values, len, &Device::Cpu)?)
        }
        WeightDtype::Bf16 => {
            let mut values = vec![bf16::ZERO; len];
            file.read(reader, tensor, &mut values, bf16::from_f32)?;
            Ok(Tensor::from_vec(values, len, &Device::Cpu)?)
        }
    }
}
