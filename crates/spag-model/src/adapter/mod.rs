//! LoRA adapters (arXiv 2106.09685) in PEFT's format: two small matrices A [r, I] and B [O, r] for some linear layers W
//! of a model, which then compute x·(W + s·B·A)ᵀ, s = alpha / r.

mod base;
mod config;
mod keys;
mod merged;
mod modules;
mod names;
mod places;

use std::path::Path;

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_io::{quote, write_json_atomically};

use self::names::module_of;
use crate::checkpoint::{ADAPTER, WriteOptions, WrittenFile, load_config, read_adapter, write_buffers};
use crate::config::Architecture;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::params::{AdapterPlaces, FlatBuffers, Layout, View, WeightSource};
use spag_ops::cast::converted;

pub use base::BaseDigest;
pub use config::LoraConfig;
pub use merged::MergedWeights;

/// An adapter for the models of an architecture.
#[derive(Clone, Debug)]
pub struct Adapter {
    config: LoraConfig,
    places: AdapterPlaces,
    /// A and B of each layer, f32.
    weights: FlatBuffers,
    /// The digest of the base model, if known.
    base: Option<BaseDigest>,
}

impl Adapter {
    /// The same adapter with other weights, possibly in another number format.
    ///
    /// # Errors
    /// The layout differs.
    pub fn with_weights(&self, weights: &FlatBuffers) -> Result<Self> {
        if !self.places.layout().has_tensors_of(weights.layout()) {
            return Err(Error::Config("the matrices have another layout than the adapter".into()));
        }
        Ok(Self { weights: weights.to_dtype(WeightDtype::F32)?, ..self.clone() })
    }

    /// [`Adapter::load`] for the model in a folder or GGUF file, without loading its weights.
    ///
    /// # Errors
    /// As [`Adapter::load`] and [`Adapter::check_base`]; or the model's configuration or files cannot be read.
    pub fn load_for(dir: impl AsRef<Path>, model: impl AsRef<Path>) -> Result<Self> {
        let adapter = Self::load(&dir, &load_config(&model)?.architecture)?;
        if adapter.base.is_some() {
            adapter.check_base(dir, &BaseDigest::of(model)?)?;
        }
        Ok(adapter)
    }

    /// Checks that an adapter's folder, if it records its base model, matches the model that it is used with.
    ///
    /// # Errors
    /// The models differ; the error has both digests.
    pub fn check_base(&self, dir: impl AsRef<Path>, model: &BaseDigest) -> Result<()> {
        match &self.base {
            Some(recorded) if recorded != model => {
                let reason = model.refusal(recorded, self.config.base());
                Err(Error::Adapter { path: dir.as_ref().to_owned(), reason })
            }
            _ => Ok(()),
        }
    }

    /// Sets the digest of the base model.
    pub fn with_base(self, base: BaseDigest) -> Self {
        Self { base: Some(base), ..self }
    }

    /// Reads `adapter_config.json`, `adapter_model.safetensors` or `adapter_model.bin`, and the record of the base model from a folder. The
    /// base model is not checked.
    ///
    /// # Errors
    /// A missing or malformed file, unsupported settings, target modules that the model does not have, or matrices that are
    /// missing, misshapen, not finite, or of other modules.
    pub fn load(dir: impl AsRef<Path>, model: &Architecture) -> Result<Self> {
        let dir = dir.as_ref();
        let config = LoraConfig::load(dir)?;
        let fit = |reason| Error::Adapter { path: dir.to_owned(), reason };
        let places = AdapterPlaces::new(&config, model).map_err(fit)?;
        let weights = read_adapter(places.layout(), dir).map_err(|error| match error {
            Error::MissingTensor { name, .. } => fit(format!(
                "its weights lack `{}`, which its target_modules ask for; names of PEFT begin with `base_model.model.`",
                quote(&name)
            )),
            Error::UnusedTensor { name, others, .. } => {
                let more = if others > 0 { format!(" and {others} more tensors") } else { String::new() };
                fit(format!("its weights have `{name}`{more}, which its target_modules do not ask for"))
            }
            error => error,
        })?;
        Ok(Self { config, places, weights, base: BaseDigest::recorded(dir)? })
    }

    /// A new adapter, f32, on the CPU: A is drawn uniformly from ±1/√I by `seed`, as PEFT does, and B is 0.
    ///
    /// # Errors
    /// Target modules that the model does not have, or out of memory.
    pub fn init(config: LoraConfig, model: &Architecture, seed: u64) -> Result<Self> {
        let places = AdapterPlaces::new(&config, model).map_err(Error::Config)?;
        let weights = FlatBuffers::zeros(places.layout(), &Device::Cpu)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for (layer, own) in places.layout().layers.iter().enumerate() {
            for (at, a) in own.views.iter().enumerate().step_by(2) {
                let bound = 1.0 / (a.shape[1].max(1) as f32).sqrt();
                let values: Vec<f32> = (0..a.len()).map(|_| rng.random_range(-bound..bound)).collect();
                weights.set_view(layer, at, &Tensor::from_vec(values, a.shape.as_slice(), &Device::Cpu)?)?;
            }
        }
        Ok(Self { config, places, weights, base: None })
    }

    /// Writes `adapter_config.json`, the record of the base model, and finally `adapter_model.safetensors`, with the matrices of `weights`,
    /// which may be sharded. Returns the weight files.
    ///
    /// # Errors
    /// A full disk, or a failed gather.
    pub fn save(
        &self,
        weights: &dyn WeightSource,
        dir: impl AsRef<Path>,
        options: WriteOptions,
    ) -> Result<Vec<WrittenFile>> {
        self.save_settings(dir.as_ref())?;
        write_buffers(weights, dir, ADAPTER, options)
    }

    /// Writes `adapter_config.json` and the record of the base model, without the matrices.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save_settings(&self, dir: &Path) -> Result<()> {
        write_json_atomically(dir.join(keys::FILE), &self.config.to_json())?;
        BaseDigest::record(self.base.as_ref(), dir)
    }

    /// Its settings.
    pub fn config(&self) -> &LoraConfig {
        &self.config
    }

    /// The places of its matrices in the model.
    pub fn places(&self) -> &AdapterPlaces {
        &self.places
    }

    /// Its matrices, f32, on the CPU.
    pub fn weights(&self) -> &FlatBuffers {
        &self.weights
    }

    /// The number of its parameters.
    pub fn len(&self) -> usize {
        self.weights.layout().len()
    }

    /// Whether it has no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds s·B·A to the weights of a model. Sums are in f32 and rounded once to the format of the weights.
    ///
    /// # Errors
    /// The weights are of another architecture.
    pub fn merge_into(&self, parameters: &FlatBuffers) -> Result<()> {
        for layer in 0..self.weights.layout().layers.len() {
            for (view, sum) in self.sums(parameters.layout(), layer, |view| parameters.view(layer, view))? {
                parameters.set_view(layer, view, &converted(&sum, parameters.dtype().into())?)?;
            }
        }
        Ok(())
    }

    /// The weights of a model with s·B·A added to them, a layer at a time. Bits are those of [`Adapter::merge_into`].
    pub fn merged_with<'a>(&'a self, base: &'a dyn WeightSource) -> MergedWeights<'a> {
        MergedWeights { base, adapter: self }
    }

    /// W + s·B·A of each weight W of a layer that has matrices, in f32 on the host, with its view. `weight` gives W.
    fn sums(
        &self,
        layout: &Layout,
        layer: usize,
        weight: impl Fn(usize) -> Result<Tensor>,
    ) -> Result<Vec<(usize, Tensor)>> {
        let pairs = self.weights.layout().layers.get(layer).map(|own| own.views.chunks_exact(2));
        let sum = |(at, pair): (usize, &[View])| {
            let view = self.view_of(layout, layer, &pair[0])?;
            let (a, b) = (self.weights.view(layer, 2 * at)?, self.weights.view(layer, 2 * at + 1)?);
            let scale = self.config.scale(module_of(&pair[0])).map_err(Error::Config)?;
            let change = (b.matmul(&a)? * scale)?;
            let weight = converted(&weight(view)?.to_device(&Device::Cpu)?, WeightDtype::F32.into())?;
            Ok((view, (weight + change)?))
        };
        pairs.into_iter().flatten().enumerate().map(sum).collect()
    }

    /// The view of the weight that an adapter matrix belongs to.
    fn view_of(&self, layout: &Layout, layer: usize, matrix: &View) -> Result<usize> {
        let name = format!("{}.weight", module_of(matrix));
        let views = layout.layers.get(layer).map(|layer| layer.views.as_slice()).unwrap_or_default();
        let found = views.iter().position(|view| view.name == name);
        found.ok_or_else(|| Error::Config(format!("the adapter is for a model with `{name}`, which this one lacks")))
    }
}
