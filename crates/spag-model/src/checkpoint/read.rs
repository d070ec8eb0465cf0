//! Reads checkpoints, one tensor at a time.

use std::fs::File;
use std::path::Path;

use candle_core::{Device, Tensor};
use half::bf16;
use sha2::{Digest, Sha256};

use super::options::LoadOptions;
use super::source::Source;
use super::tensor_file::read_chunks;
use super::weight_file::{Stored, Weight, WeightFile};
use super::weight_files::{ADAPTER, MODEL, WeightFiles};
use crate::config::ModelConfig;
use crate::dtype::WeightDtype;
use crate::error::Result;
use crate::gguf::is_gguf;
use crate::model::Model;
use crate::params::{FlatBuffers, Layout};
use crate::tokenizer::{SpecialIds, Tokenizer};
use spag_ops::cpu::{self, Stored as _};

/// Reads the configuration of the checkpoint at `path`: a folder's `config.json`, or the metadata of a GGUF file.
///
/// # Errors
/// A missing or malformed file, or an unsupported configuration.
pub fn load_config(path: impl AsRef<Path>) -> Result<ModelConfig> {
    Source::find(path.as_ref())?.config()
}

/// Notes for the user on weights that are not read as the configuration alone says: an output head although the configuration
/// ties it to the embedding, as written by older versions of PEFT and transformers, which is used unless it equals the embedding;
/// and the tensors of a multimodal model that are skipped.
///
/// # Errors
/// As [`load_config`].
pub fn load_notes(path: impl AsRef<Path>) -> Result<Vec<String>> {
    Source::find(path.as_ref())?.notes()
}

/// Reads the tokenizer of a checkpoint, including the files copied when saving.
///
/// # Errors
/// A missing or malformed file, or special tokens outside the model's vocabulary.
pub fn load_tokenizer(path: impl AsRef<Path>) -> Result<Tokenizer> {
    let source = Source::find(path.as_ref())?;
    let config = source.config()?;
    source.tokenizer(SpecialIds::from(&config))?.for_embeddings(config.architecture.vocab_size)
}

/// Reads a model without its tokenizer, e.g. a reference model, as f32 on the CPU.
///
/// # Errors
/// As [`Checkpoint::load`](super::Checkpoint::load), except for the tokenizer.
pub fn load_model(path: impl AsRef<Path>) -> Result<Model> {
    load_model_with(path, &LoadOptions::default())
}

/// [`load_model`] with a given device and number format.
///
/// # Errors
/// As [`Checkpoint::load_with`](super::Checkpoint::load_with), except for the tokenizer.
pub fn load_model_with(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model> {
    let path = path.as_ref();
    let source = Source::find(path)?;
    let config = source.config()?;
    let layout = Layout::new(&config.architecture);
    // Before any allocation: the configuration may claim sizes that the weights do not have.
    let weights = source.weights()?;
    weights.check(&layout)?;
    require_room(&layout, options.dtype, &options.device, path)?;
    let parameters = FlatBuffers::zeros_of(&layout, options.dtype, &options.device)?;
    fill(&parameters, &weights)?;
    Model::from_parameters(&config, parameters)
}

/// Checks that the weights fit on the device, or for a CPU into memory and swap space.
fn require_room(layout: &Layout, dtype: WeightDtype, device: &Device, dir: &Path) -> Result<()> {
    let what = || format!("{}: the weights in {dtype}", dir.display());
    let advice = match device {
        Device::Cpu if dtype == WeightDtype::F32 => {
            "stop other programs, use a machine with more memory, or generate with --dtype bf16, which takes half of it"
        }
        Device::Cpu => "stop other programs, or use a machine with more memory",
        _ => "use a GPU with more memory, or stop other programs on this one",
    };
    Ok(spag_ops::require_room(layout.bytes(dtype), device, what, advice)?)
}

/// Checks from the headers that a checkpoint's weight files hold exactly the tensors of its configuration. Returns the
/// configuration, whose sizes are then verified.
///
/// # Errors
/// Missing or malformed files, or tensors that are missing, misshapen or not used.
pub fn check_checkpoint(path: impl AsRef<Path>) -> Result<ModelConfig> {
    let source = Source::find(path.as_ref())?;
    let config = source.config()?;
    source.weights()?.check(&Layout::new(&config.architecture))?;
    Ok(config)
}

/// Reads tensors written by [`write_buffers`](super::write_buffers), or the model of a GGUF file, into `buffers` of the
/// same layout. The number format may differ.
///
/// # Errors
/// Missing or malformed files; missing, misshapen or unused tensors; weights that are not finite.
pub fn read_buffers(buffers: &FlatBuffers, path: impl AsRef<Path>, stem: &str) -> Result<()> {
    fill(buffers, &open(path.as_ref(), stem)?)
}

/// Reads the tensors of `layout` from the files of `stem` ("model" for a model's weights) one at a time, in file order.
/// `each` receives the indices of layer and view, and the flat tensor in `dtype` on the CPU. Used to read shards.
///
/// # Errors
/// As [`read_buffers`], or an error of `each`.
pub fn read_tensors(
    layout: &Layout,
    dtype: WeightDtype,
    path: impl AsRef<Path>,
    stem: &str,
    each: &mut dyn FnMut(usize, usize, Tensor) -> Result<()>,
) -> Result<()> {
    open(path.as_ref(), stem)?
        .read(layout, |file, reader, tensor, (layer, view)| each(layer, view, on_host(file, reader, tensor, dtype)?))
}

/// Reads the matrices of an adapter, f32, on the CPU.
pub(crate) fn read_adapter(layout: &Layout, dir: &Path) -> Result<FlatBuffers> {
    let files = WeightFiles::open(dir, ADAPTER)?;
    files.check(layout)?;
    let buffers = FlatBuffers::zeros(layout, &Device::Cpu)?;
    fill(&buffers, &files)?;
    Ok(buffers)
}

/// Opens the files of `stem`. A GGUF file only holds a model.
fn open(path: &Path, stem: &str) -> Result<WeightFiles> {
    if stem == MODEL && is_gguf(path) { WeightFiles::of_gguf(path) } else { WeightFiles::open(path, stem) }
}

fn fill(buffers: &FlatBuffers, files: &WeightFiles) -> Result<()> {
    files.read(buffers.layout(), |file, reader, tensor, at| copy_into(file, reader, tensor, buffers, at))
}

/// SHA-256, in hexadecimal, of a checkpoint's configuration and weights.
pub fn weights_digest(path: impl AsRef<Path>) -> Result<String> {
    let mut hash = Sha256::new();
    for path in Source::find(path.as_ref())?.paths()? {
        read_chunks(&path, |chunk| hash.update(chunk))?;
    }
    Ok(spag_io::hex(&hash.finalize()))
}

/// Reads a stored tensor into its view.
///
/// On a CPU it is read into the buffer directly; for other devices the tensor is read into host memory first.
pub(super) fn copy_into(
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
    match buffers.dtype() {
        WeightDtype::F32 => cpu::update(&to, |out| {
            read = file.read(reader, tensor, out);
            Ok(())
        })?,
        WeightDtype::Bf16 => bf16::update(&to, |out| {
            read = file.read(reader, tensor, out);
            Ok(())
        })?,
    }
    read
}

/// Reads a stored tensor, flat, into host memory.
fn on_host(file: &WeightFile, reader: &mut File, tensor: Stored<'_>, dtype: WeightDtype) -> Result<Tensor> {
    fn read<T: Weight>(file: &WeightFile, reader: &mut File, tensor: Stored<'_>) -> Result<Tensor> {
        let mut values = vec![T::zero(); tensor.info.shape.iter().product()];
        file.read(reader, tensor, &mut values)?;
        let len = values.len();
        Ok(Tensor::from_vec(values, len, &Device::Cpu)?)
    }
    match dtype {
        WeightDtype::F32 => read::<f32>(file, reader, tensor),
        WeightDtype::Bf16 => read::<bf16>(file, reader, tensor),
    }
}
