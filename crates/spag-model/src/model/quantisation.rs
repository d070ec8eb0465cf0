//! Models with matrices to be quantised by engines.

use std::sync::Arc;

use candle_core::Device;

use super::Model;
use crate::config::ModelConfig;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::packed_weights::{Matrices, PackedWeights, ReplacedMatrix, check_inputs};
use crate::params::{FlatBuffers, Layout};
use spag_ops::kernels;
use spag_ops::quantised::BlockFormat;

/// How weights are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantisation {
    /// Quantise the matrices of blocks and the output head to a format or its [fallback](BlockFormat::of_inputs).
    To(BlockFormat),
    /// Keep the tensors of a GGUF file that are in a [`BlockFormat`].
    Stored,
}

impl Quantisation {
    const STORED: &str = "stored";

    /// Checks that a device supports the quantisation.
    ///
    /// # Errors
    /// The device is a GPU, and the quantisation is not to a format in [`BlockFormat::ON_GPUS`].
    pub fn check_device(self, device: &Device) -> Result<()> {
        match self {
            _ if kernels::of(device)?.is_none() => Ok(()),
            Self::To(format) if BlockFormat::ON_GPUS.contains(&format) => Ok(()),
            Self::To(_) | Self::Stored => {
                let formats = BlockFormat::ON_GPUS.map(|format| format!("--quantize {format}")).join(" or ");
                Err(Error::Generation(format!("weights quantised to {self} are for a CPU; on a GPU use {formats}")))
            }
        }
    }
}

impl std::fmt::Display for Quantisation {
    /// The name of the format, or "stored".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::To(format) => format.fmt(f),
            Self::Stored => f.write_str(Self::STORED),
        }
    }
}

impl std::str::FromStr for Quantisation {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            Self::STORED => Ok(Self::Stored),
            other => match other.parse() {
                Ok(format) => Ok(Self::To(format)),
                Err(why) => Err(format!("{why}, or {} (GGUF files as they are)", Self::STORED)),
            },
        }
    }
}

/// The weights of a model that was quantised while loading.
pub(crate) struct QuantisedModel {
    pub(crate) quantisation: Quantisation,
    pub(crate) weights: PackedWeights,
}

impl Model {
    /// Marks the model for quantisation: engines quantise the matrices of its blocks and its output head when packing them.
    /// Embeddings, norms, biases, and matrices whose input size is not divisible by 32 ([`Model::replaced_matrices`]) keep the
    /// number format of the parameters. The parameters are unchanged and used by all passes except those of engines.
    ///
    /// # Errors
    /// No matrix of the model can be quantised; or the model is on a GPU and the format is not in [`BlockFormat::ON_GPUS`].
    pub fn quantised(self, format: BlockFormat) -> Result<Self> {
        Quantisation::To(format).check_device(self.parameters.device())?;
        check_inputs(&self.config().architecture, format)?;
        Ok(Self { quantisation: Some(Quantisation::To(format)), ..self })
    }

    /// A model with weights packed layer by layer while loading.
    pub(crate) fn of_quantised(
        config: &ModelConfig,
        model: QuantisedModel,
        (dtype, device): (WeightDtype, &Device),
    ) -> Result<Self> {
        let layout = Layout::new(&config.architecture);
        let parameters = FlatBuffers::released(&layout, dtype, device)?;
        let (quantisation, packed) = (Some(model.quantisation), Some(Arc::new(model.weights)));
        Ok(Self { quantisation, packed, ..Self::from_parameters(config, parameters)? })
    }

    /// The weights, if packed while loading.
    pub(crate) fn packed(&self) -> Option<&Arc<PackedWeights>> {
        self.packed.as_ref()
    }

    /// How engines quantise the weights, if they do.
    pub fn quantisation(&self) -> Option<Quantisation> {
        self.quantisation
    }

    /// The format to which engines quantise the matrices, if any.
    pub(crate) fn block_format(&self) -> Option<BlockFormat> {
        match self.quantisation {
            Some(Quantisation::To(format)) => Some(format),
            Some(Quantisation::Stored) | None => None,
        }
    }

    /// The matrices in another format than the model's.
    pub fn replaced_matrices(&self) -> Vec<ReplacedMatrix> {
        let Some(format) = self.block_format() else { return Vec::new() };
        Matrices::of(&self.config().architecture).replaced(format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(hidden: usize, intermediate: usize) -> Model {
        let config: ModelConfig = serde_json::from_value(serde_json::json!({
            "hidden_size": hidden, "intermediate_size": intermediate, "vocab_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "max_position_embeddings": 64
        }))
        .unwrap();
        Model::init(&config, 1).unwrap()
    }

    #[test]
    fn replaced_matrices_are_named_and_a_model_that_cannot_be_quantised_is_refused() {
        let quantised = |hidden, intermediate, format| model(hidden, intermediate).quantised(format);
        let replaced = |hidden, intermediate, format| {
            let replaced = quantised(hidden, intermediate, format).unwrap().replaced_matrices();
            replaced
                .into_iter()
                .map(|ReplacedMatrix { name, inputs, format }| (name, inputs, format))
                .collect::<Vec<_>>()
        };
        assert!(model(64, 40).replaced_matrices().is_empty());
        assert_eq!(replaced(64, 40, BlockFormat::Q4_0), [("down_proj", 40, None)]);
        assert!(replaced(64, 96, BlockFormat::Q4_0).is_empty());
        let replaced = replaced(64, 256, BlockFormat::Q4K);
        assert_eq!(replaced.len(), 4);
        assert!(replaced.iter().all(|(_, inputs, format)| (*inputs, *format) == (64, Some(BlockFormat::Q5_0))));
        let error = quantised(40, 72, BlockFormat::Q4_0).unwrap_err().to_string();
        assert!(error.contains("hidden_size 40 and intermediate_size 72 are no multiples of 32"), "{error}");
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for quantisation in [Quantisation::To(BlockFormat::Q4K), Quantisation::Stored] {
            assert_eq!(quantisation.to_string().parse(), Ok(quantisation));
        }
        let error = "q3_k".parse::<Quantisation>().unwrap_err();
        assert!(error.ends_with("q4_0, q4_k, or stored (GGUF files as they are)"), "{error}");
    }
}
