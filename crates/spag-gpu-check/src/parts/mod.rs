//! The parts of a whole check.

mod model;
mod python;

use std::path::PathBuf;

use candle_core::Device;
use clap::{Args, ValueEnum};
use serde_json::json;
use spag_gpu_check::{Place, Row, bench, checks, parity};
use spag_io::format_gib;
use spag_model::{DeviceChoice, OpenDevice};

/// What a part reports: one row at a time.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Row);

/// Why a part could not go on.
pub(crate) type Error = Box<dyn std::error::Error>;

/// A part of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Every kernel against its CPU version.
    Kernels,
    /// The fixtures of training and generation, in f32 and bf16.
    Parity,
    /// How fast the GPU copies and multiplies.
    Ceilings,
    /// Each kernel at 7B's sizes against its floor.
    Ops,
    /// Training steps of a 7B model.
    Train,
    /// Prefill and decode of a 7B model.
    Decode,
    /// Self-play of a 7B model.
    Play,
    /// The same training step and self-play in PyTorch, where it is installed.
    Pytorch,
}

impl Part {
    pub(crate) const ALL: [Self; 8] =
        [Self::Kernels, Self::Parity, Self::Ceilings, Self::Ops, Self::Train, Self::Decode, Self::Play, Self::Pytorch];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Parity => "parity",
            Self::Ceilings => "ceilings",
            Self::Ops => "ops",
            Self::Train => "train",
            Self::Decode => "decode",
            Self::Play => "play",
            Self::Pytorch => "pytorch",
        }
    }
}

/// What the parts are told.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct Settings {
    /// The GPU.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: usize,
    /// Folder of the fixtures.
    #[arg(long, value_name = "DIR", default_value = "tests/fixtures")]
    fixtures: PathBuf,
    /// config.json of the large model.
    #[arg(long, value_name = "FILE", default_value = "configs/llama2-7b/config.json")]
    config: PathBuf,
    /// Folder of the large model; made with random weights where it does not exist.
    #[arg(long, value_name = "DIR", default_value = "gpu-check-model")]
    checkpoint: PathBuf,
    /// Python with torch and transformers.
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// Sequences of a training step.
    #[arg(long, value_name = "N", default_value_t = 2)]
    batch: usize,
    /// Tokens of a sequence.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    seq: usize,
}

impl Settings {
    /// The same as flags, for a process of the same program.
    pub(crate) fn flags(&self) -> Vec<String> {
        [
            ("--gpu", self.gpu.to_string()),
            ("--fixtures", self.fixtures.display().to_string()),
            ("--config", self.config.display().to_string()),
            ("--checkpoint", self.checkpoint.display().to_string()),
            ("--python", self.python.display().to_string()),
            ("--batch", self.batch.to_string()),
            ("--seq", self.seq.to_string()),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect()
    }
}

/// The GPU in words.
pub(crate) fn describe(settings: &Settings) -> Result<String, Error> {
    let device = open(settings)?;
    let memory = device.memory()?;
    Ok(format!("{device}, {} of {} free", format_gib(memory.free), format_gib(memory.total)))
}

fn open(settings: &Settings) -> Result<OpenDevice, Error> {
    Ok(DeviceChoice::Cuda(Some(settings.gpu)).open(0)?)
}

/// Runs a part.
pub(crate) fn run(part: Part, settings: &Settings, sink: Sink<'_>) -> Result<(), Error> {
    if part == Part::Pytorch {
        return python::run(settings, sink);
    }
    let device = open(settings)?.device().clone();
    if matches!(part, Part::Kernels | Part::Parity) {
        poison(&device)?;
    }
    match part {
        Part::Kernels => checks::run(&Place::device(device), sink),
        Part::Parity => parity::run(&Place::device(device), &settings.fixtures, sink),
        Part::Ceilings => ceilings(&device, sink)?,
        Part::Ops => {
            let ceilings = bench::ceilings(&device)?;
            bench::ops(&device, &ceilings, &mut |timed| sink(timed.row()))?;
        }
        Part::Train => model::train(settings, &device, sink)?,
        Part::Decode => model::decode(settings, &device, sink)?,
        Part::Play => model::play(settings, &device, sink)?,
        Part::Pytorch => {}
    }
    Ok(())
}

/// Outputs of kernels hold NaNs until they are written.
fn poison(device: &Device) -> Result<(), Error> {
    #[cfg(feature = "cuda")]
    if let Device::Cuda(device) = device {
        spag_model::kernels::CudaKernels::of(device)?.poison_outputs();
    }
    let _ = device;
    Ok(())
}

fn ceilings(device: &Device, sink: Sink<'_>) -> Result<(), Error> {
    let found = bench::ceilings(device)?;
    let row = |what: &str, value: f64, unit: &str| Row {
        part: "ceilings".into(),
        what: what.into(),
        result: format!("{value:.0} {unit}"),
        numbers: json!({ "value": value, "unit": unit }),
        passed: None,
    };
    sink(row("copy within the device's memory, bytes read and written", found.copy_gb_per_s, "GB/s"));
    sink(row("bf16 product of 8192×8192 by 8192×8192", found.matmul_tflops, "TFLOP/s"));
    Ok(())
}
