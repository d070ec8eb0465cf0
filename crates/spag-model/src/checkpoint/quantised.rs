//! Loads a model and quantises its weights on the fly: at most one layer exists in another number format at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::{Device, Tensor};
use spag_io::quote;

use super::format::{Format, TensorInfo};
use super::read::copy_into;
use super::source::Source;
use super::weight_file::{Stored, WeightFile};
use super::weight_files::{Located, WeightFiles};
use super::{Checkpoint, LoadOptions, load_tokenizer};
use crate::config::ModelConfig;
use crate::dtype::{StoredDtype, WeightDtype};
use crate::error::{Error, Result};
use crate::gguf::is_gguf;
use crate::model::{Model, Quantisation, QuantisedModel};
use crate::packed_weights::{
    LoadedLayer, Matrices, PackedMemory, PackedWeights, QuantisedLayers, StoredMatrix, check_inputs,
};
use crate::params::{FlatBuffers, Layout, Part};
use spag_ops::quantised::BlockFormat;

/// Loads a checkpoint for engines with quantised weights, quantising on the host. The options' number format applies to everything
/// that is not quantised: keys and values, norms, biases, embeddings, and matrices that cannot be quantised.
///
/// [`Quantisation::Stored`] also keeps the embedding in the file's format, shared with a tied output head. Tensors in formats other
/// than those of [`BlockFormat`] are dequantised; the second part of the result counts them by format.
///
/// The model has no other weights: it cannot run its own passes or be trained.
///
/// # Errors
/// As [`Checkpoint::load_with`] and [`Quantisation::check_device`]; or the checkpoint has no matrix that can be quantised, or is
/// already quantised in its file.
pub fn load_quantised(
    path: impl AsRef<Path>,
    options: &LoadOptions,
    quantisation: Quantisation,
) -> Result<(Checkpoint, BTreeMap<String, usize>)> {
    let (path, LoadOptions { device, dtype }) = (path.as_ref(), options);
    quantisation.check_device(device)?;
    let tokenizer = load_tokenizer(path)?;
    let memory = match quantisation {
        Quantisation::To(format) => PackedMemory::Quantised(format),
        Quantisation::Stored => PackedMemory::Own,
    };
    with_layers((path, options, quantisation), |config, layers, dequantised| {
        let weights = PackedWeights::load(&config.architecture, (memory, device), |layer| layers.read(layer))?;
        let model = Model::of_quantised(config, QuantisedModel { quantisation, weights }, (*dtype, device))?;
        Ok((Checkpoint { model, tokenizer }, dequantised))
    })
}

/// Whether `path` is a GGUF file with matrices that [`Quantisation::Stored`] keeps. `false` if it cannot be read.
pub fn is_quantised(path: impl AsRef<Path>) -> bool {
    let kept = |info: &TensorInfo| matches!(&info.dtype, StoredDtype::Read(format) if block_format(*format).is_some());
    let path = path.as_ref();
    is_gguf(path)
        && WeightFile::open(path, Format::Gguf)
            .is_ok_and(|file| file.tensors.values().any(|info| info.shape.len() == 2 && kept(info)))
}

/// Loads the frozen weights for training an adapter, quantised to a format or its
/// [fallback](BlockFormat::of_inputs). `dtype` is the number format of layers as passed to passes.
///
/// # Errors
/// As [`load_quantised`].
pub fn load_quantised_layers(
    path: impl AsRef<Path>,
    dtype: WeightDtype,
    format: BlockFormat,
) -> Result<QuantisedLayers> {
    let options = LoadOptions { device: Device::Cpu, dtype };
    with_layers((path.as_ref(), &options, Quantisation::To(format)), |_, layers, _| {
        QuantisedLayers::load(layers.layout.clone(), dtype, format, |layer| layers.read(layer))
    })
}

/// Opens the files of a checkpoint and calls `load` with its layers.
fn with_layers<T>(
    (path, options, quantisation): (&Path, &LoadOptions, Quantisation),
    load: impl FnOnce(&ModelConfig, &Layers<'_>, BTreeMap<String, usize>) -> Result<T>,
) -> Result<T> {
    let source = Source::find(path)?;
    let config = source.config()?;
    let layout = Layout::new(&config.architecture);
    let files = source.weights()?;
    let located = files.locate(&layout)?;
    let layers = Layers { layout: &layout, files: &files, located: &located, dtype: options.dtype, quantisation };
    let dequantised = layers.check(path, source)?;
    if let Quantisation::To(format) = quantisation {
        check_inputs(&config.architecture, format)?;
    }
    layers.require_room(path, &Matrices::of(&config.architecture), &options.device)?;
    load(&config, &layers, dequantised)
}

/// Reads the layers of a checkpoint.
struct Layers<'a> {
    layout: &'a Layout,
    files: &'a WeightFiles,
    located: &'a [Vec<Located<'a>>],
    dtype: WeightDtype,
    quantisation: Quantisation,
}

impl Layers<'_> {
    /// The stored format of a matrix, if it is kept.
    fn kept(&self, located: &Located<'_>) -> Option<BlockFormat> {
        match (self.quantisation, &located.info().dtype) {
            (Quantisation::Stored, StoredDtype::Read(format)) if located.info().shape.len() == 2 => {
                block_format(*format)
            }
            _ => None,
        }
    }

    /// Refuses a checkpoint without any matrix to keep. Counts the dequantised matrices by number format.
    fn check(&self, path: &Path, source: Source<'_>) -> Result<BTreeMap<String, usize>> {
        let mut dequantised = BTreeMap::new();
        if self.quantisation != Quantisation::Stored {
            return Ok(dequantised);
        }
        let matrices = self.located.iter().flatten().filter(|located| located.info().shape.len() == 2);
        let (kept, others): (Vec<_>, Vec<_>) = matrices.partition(|located| self.kept(located).is_some());
        if kept.is_empty() {
            let what = match source {
                Source::Folder(_) => "a folder, whose weights are not quantised",
                Source::Gguf(_) => "a GGUF file without a matrix in Q8_0, Q6_K, Q5_0, Q4_1, Q4_0 or Q4_K",
            };
            return Err(Error::Generation(format!(
                "{}: it is {what}, and --quantize stored takes the matrices of a GGUF file as they are; name a format, as in \
                 --quantize q8_0",
                path.display()
            )));
        }
        for located in others {
            if let StoredDtype::Read(format) = &located.info().dtype {
                *dequantised.entry(format!("{format:?}")).or_default() += 1;
            }
        }
        Ok(dequantised)
    }

    /// Checks that the model fits into device memory, and a layer into host memory.
    fn require_room(&self, path: &Path, matrices: &Matrices, device: &Device) -> Result<()> {
        let of_layer = |layer: usize| self.layout.layers[layer].len as u64 * self.dtype.bytes() as u64;
        let packed = match self.quantisation {
            Quantisation::To(format) => matrices.bytes(format, self.dtype).saturating_add(of_layer(0)),
            Quantisation::Stored => self.located.iter().flatten().map(|located| located.bytes()).sum(),
        };
        let largest = (0..self.layout.layers.len()).map(of_layer).max().unwrap_or(0);
        let what = || format!("{}: the weights, quantised ({}),", path.display(), self.quantisation);
        let advice = "stop other programs, use a machine with more memory, or a format with fewer bits";
        if device.is_cpu() {
            return Ok(spag_ops::require_room(packed.saturating_add(largest), device, what, advice)?);
        }
        let layer = || format!("{}: a layer, and what it is quantised to,", path.display());
        spag_ops::require_room(largest.saturating_mul(2), &Device::Cpu, layer, advice)?;
        Ok(spag_ops::require_room(packed, device, what, advice)?)
    }

    /// Reads a layer.
    fn read(&self, layer: usize) -> Result<LoadedLayer> {
        let layout = Layout { layers: vec![self.layout.layers[layer].clone()] };
        let buffers = FlatBuffers::zeros_of(&layout, self.dtype, &Device::Cpu)?;
        let mut stored = Vec::new();
        for (view, located) in self.located[layer].iter().enumerate() {
            let (file, tensor) =
                (located.file, Stored { name: &located.name, info: located.info(), values: self.files.values() });
            let mut reader = File::open(&file.path).map_err(spag_io::Error::io(&file.path))?;
            match self.kept(located) {
                None => copy_into(file, &mut reader, tensor, &buffers, (0, view))?,
                Some(format) => {
                    let bytes = file.read_blocks(&mut reader, tensor)?;
                    let shape = &located.info().shape;
                    check_finite(format, &bytes, located)?;
                    let part: Part = layout.layers[0].views[view].part;
                    stored.push(StoredMatrix { part, format, extents: (shape[0], shape[1]), bytes });
                }
            }
        }
        let buffer: Tensor = buffers.layers()[0].clone();
        Ok(LoadedLayer { layout, buffer, stored })
    }
}

/// The engine format of a ggml format.
fn block_format(format: GgmlDType) -> Option<BlockFormat> {
    match format {
        GgmlDType::Q8_0 => Some(BlockFormat::Q8_0),
        GgmlDType::Q6K => Some(BlockFormat::Q6K),
        GgmlDType::Q5_0 => Some(BlockFormat::Q5_0),
        GgmlDType::Q4_1 => Some(BlockFormat::Q4_1),
        GgmlDType::Q4_0 => Some(BlockFormat::Q4_0),
        GgmlDType::Q4K => Some(BlockFormat::Q4K),
        _ => None,
    }
}

/// Checks that all numbers are finite.
fn check_finite(format: BlockFormat, bytes: &[u8], located: &Located<'_>) -> Result<()> {
    match format.first_not_finite(bytes) {
        None => Ok(()),
        Some(index) => Err(Error::NotFinite { path: located.file.path.clone(), name: quote(&located.name), index }),
    }
}
