//! The flags of loading: devices, number formats, and whether prompts begin with BOS.

use std::path::Path;

use clap::Args;
use spag_dist::LaunchEnv;
use spag_model::checkpoint::{LoadOptions, is_quantised, load_config, load_notes, load_quantised};
use spag_model::dtype::{DtypeChoice, WeightDtype};
use spag_model::model::{BlockFormat, Quantisation};
use spag_model::tokenizer::BosRule;
use spag_model::{Checkpoint, Model};
use spag_ops::{DeviceChoice, OpenDevice};

use crate::{Error, Result, adapter_args, exit, flags};

/// The flag of programs that compute.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct DeviceArgs {
    /// Device of the models: cpu, cuda (the GPU with this process's local rank), cuda:N, or auto (cuda if this build
    /// supports it and the machine has a GPU, else cpu).
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto, help_heading = "Device")]
    pub device: DeviceChoice,
}

impl DeviceArgs {
    /// Opens the device, so that an unusable one is reported before anything is loaded.
    ///
    /// # Errors
    /// The device is unusable, or the launcher's environment is invalid.
    pub fn open(&self) -> Result<OpenDevice> {
        let device = self.device.open(LaunchEnv::detect()?.local_rank)?;
        if let Some(note) = device.take_note() {
            exit::note(format_args!("note: {note}"));
        }
        Ok(device)
    }
}

/// The flag of programs that encode texts.
#[derive(Clone, Copy, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct BosArgs {
    /// Begin prompts and samples with BOS, if the tokenizer has one: True or False [default: as the tokenizer's own files say:
    /// add_bos_token of tokenizer_config.json, else the post-processor of tokenizer.json, else the tokenizer's class]. A chat
    /// template writes its own.
    #[arg(long, value_name = "BOOL", value_parser = flags::truth, help_heading = "Tokenizer")]
    add_bos_token: Option<bool>,
}

impl BosArgs {
    /// The rule that the flag resolves to.
    pub fn rule(self) -> BosRule {
        self.add_bos_token.into()
    }
}

/// The flags of programs that load checkpoints for generation.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct LoadArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// Number format of the weights: f32, bf16, or auto (on a GPU bf16 if the checkpoint has 16 bits per weight, else
    /// f32). On a CPU, bf16 also rounds the inputs of linear layers, keys and values; all other arithmetic is f32.
    #[arg(long, value_name = "TYPE", default_value_t = DtypeChoice::Auto, help_heading = "Device")]
    dtype: DtypeChoice,
    /// Quantise the weights of linear layers and of the output head as they are loaded, as ggml does: q8_0 (8.5 bits a weight), q6_k
    /// (6.6), q5_0 (5.5), q4_1 (5), q4_0 (4.5) or q4_k (4.5, and the best of 4 bits); or stored: the quantised tensors of a GGUF file as
    /// they are in it; or none [default: stored on a CPU for a GGUF file with quantised tensors, with --dtype auto and without an
    /// adapter; else none]. A GPU takes q8_0 and q4_0 only.
    /// Embeddings, norms, keys, values, adapters of a server, and matrices whose input size 32 does not divide have the number format
    /// of --dtype; where 256 does not divide it, q5_0 is taken for q4_k and q8_0 for q6_k.
    #[arg(long, value_name = "TYPE", help_heading = "Device")]
    quantize: Option<Quantize>,
    #[command(flatten)]
    bos: BosArgs,
}

/// The value of `--quantize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantize {
    /// The weights have the number format of `--dtype`.
    None,
    To(Quantisation),
}

impl std::str::FromStr for Quantize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            other => other.parse().map(Self::To).map_err(|why| format!("{why}, or none")),
        }
    }
}

impl LoadArgs {
    /// Opens the device.
    ///
    /// # Errors
    /// The device is unusable, or does not multiply weights that are quantised so; or the launcher's environment is invalid.
    pub fn open(&self) -> Result<OpenDevice> {
        let device = self.device.open()?;
        let Some(Quantize::To(quantisation)) = self.quantize else { return Ok(device) };
        match quantisation.check_device(device.device()) {
            Ok(()) => Ok(device),
            Err(why) => Err(Error::BadValue { flag: format!("--quantize {quantisation}"), problem: why.to_string() }),
        }
    }

    /// What the weights of the model at `path`, with or without an adapter, are quantised to.
    fn quantisation(&self, path: &Path, adapter: Option<&Path>, device: &OpenDevice) -> Option<Quantisation> {
        match self.quantize {
            Some(Quantize::To(quantisation)) => Some(quantisation),
            Some(Quantize::None) => None,
            // The sum of weights and an adapter is not in the file.
            None if adapter.is_some() || self.dtype != DtypeChoice::Auto || !device.device().is_cpu() => None,
            None => is_quantised(path).then_some(Quantisation::Stored),
        }
    }

    /// What the weights of the model at `path` are quantised to, and their number format before, as records of answers name it.
    ///
    /// # Errors
    /// As [`LoadArgs::dtype`].
    pub fn number_format(&self, path: &Path, adapter: Option<&Path>) -> Result<String> {
        let dtype = self.dtype(path)?;
        Ok(match self.quantisation(path, adapter, &self.open()?) {
            None => dtype.to_string(),
            Some(Quantisation::To(format)) => format!("{dtype} quantised to {format}"),
            Some(Quantisation::Stored) => format!("{dtype} quantised as in its file"),
        })
    }

    /// The number format of the model at `path` once loaded.
    ///
    /// # Errors
    /// The device is unusable, or the configuration cannot be read.
    pub fn dtype(&self, path: &Path) -> Result<WeightDtype> {
        let device = self.open()?;
        let config = load_config(path)?;
        Ok(self.dtype.resolve(&config, device.device()))
    }

    /// Whether prompts begin with BOS.
    pub fn bos_rule(&self) -> BosRule {
        self.bos.rule()
    }

    /// Loads the checkpoint at `path`, a folder or a GGUF file, onto the device.
    ///
    /// # Errors
    /// The device is unusable, or the checkpoint cannot be loaded.
    pub fn load(&self, path: &Path) -> Result<Checkpoint> {
        self.load_adapted(path, None)
    }

    /// As [`LoadArgs::load`], with the products of a LoRA adapter added to the weights, in their number format.
    ///
    /// # Errors
    /// As there, or an adapter that is invalid or for another model.
    pub fn load_adapted(&self, path: &Path, adapter: Option<&Path>) -> Result<Checkpoint> {
        // Before the weights, which may take long.
        let device = self.open()?;
        let quantisation = self.quantisation(path, adapter, &device);
        let device = device.device().clone();
        let adapter = adapter.map(|folder| adapter_args::read(folder, path)).transpose()?;
        let dtype = match (self.dtype, device.is_cpu()) {
            (DtypeChoice::Fixed(dtype), _) => dtype,
            // An invalid checkpoint is reported by `load_with`, which has the better message.
            (DtypeChoice::Auto, true) => WeightDtype::F32,
            (DtypeChoice::Auto, false) => self.dtype(path)?,
        };
        if (self.quantize, quantisation) == (None, Some(Quantisation::Stored)) {
            let path = path.display();
            exit::note(format_args!(
                "note: {path}: quantised matrices stay as in the file; --quantize none dequantises them"
            ));
        }
        for note in load_notes(path)? {
            exit::note(format_args!("note: {note}"));
        }
        let options = LoadOptions { device, dtype };
        let Checkpoint { model, tokenizer } = match (quantisation, adapter) {
            (Some(Quantisation::Stored), Some(_)) => {
                return Err(Error::BadValue {
                    flag: format!("--quantize {}", Quantisation::Stored),
                    problem:
                        "an adapter is added to the weights, which cannot stay as they are; name a format to quantise \
                              their sum to, as in --quantize q8_0"
                            .into(),
                });
            }
            (Some(quantisation), None) => {
                let (checkpoint, dequantised) = load_quantised(path, &options, quantisation)?;
                for (format, count) in dequantised {
                    exit::note(format_args!("note: {}: {count} matrices in {format} are in {dtype}", path.display()));
                }
                checkpoint
            }
            (quantisation, adapter) => {
                let Checkpoint { mut model, tokenizer } = Checkpoint::load_with(path, &options)?;
                if let Some(adapter) = adapter {
                    adapter.merge_into(model.parameters())?;
                }
                // The sum of weights and adapter is quantised.
                if let Some(Quantisation::To(format)) = quantisation {
                    model = model.quantised(format)?;
                }
                Checkpoint { model, tokenizer }
            }
        };
        note_replaced(&model, path);
        Ok(Checkpoint { model, tokenizer: tokenizer.with_bos_rule(self.bos_rule()) })
    }
}

/// Says which matrices are not in the format that was asked for.
fn note_replaced(model: &Model, path: &Path) {
    let named = |format: Option<BlockFormat>| {
        let replaced = model.replaced_matrices().into_iter().filter(|matrix| matrix.format == format);
        replaced.map(|matrix| format!("{} ({})", matrix.name, matrix.inputs)).collect::<Vec<_>>().join(", ")
    };
    let path = path.display();
    for format in BlockFormat::ALL {
        let names = named(Some(format));
        if !names.is_empty() {
            exit::note(format_args!("note: {path}: in {format}, since 256 does not divide their input size: {names}"));
        }
    }
    let kept = named(None);
    if !kept.is_empty() {
        exit::note(format_args!("note: {path}: not quantised, since 32 does not divide their input size: {kept}"));
    }
}
