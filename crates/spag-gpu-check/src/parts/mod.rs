//! The parts of the program.

mod model;
mod python;

use std::path::PathBuf;

use candle_core::Device;
use clap::{Args, ValueEnum};
use serde_json::json;
use spag_gpu_check::{Place, Row, bench, kernels, parity};
use spag_io::format_gib;
use spag_model::{DeviceChoice, OpenDevice};

/// Receives the rows of a part.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Row);

/// Why a part failed.
pub(crate) type Error = Box<dyn std::error::Error>;

/// A part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Compare every kernel with its CPU version.
    Kernels,
    /// Compare training and generation with the fixtures, in f32 and bf16.
    Parity,
    /// Measure copies and matrix products.
    Ceilings,
    /// Benchmark each kernel at the sizes of a 7B model.
    Ops,
    /// Benchmark training steps of a 7B model.
    Train,
    /// Benchmark prefill and decode of a 7B model.
    Decode,
    /// Benchmark self-play of a 7B model.
    Play,
    /// Benchmark the same training step and self-play in PyTorch, if installed.
    Pytorch,
}

impl Part {
    pub(crate) const ALL: [Self; 8] =
        [Self::Kernels, Self::Parity, Self::Ceilings, Self::Ops, Self::Train, Self::Decode, Self::Play, Self::Pytorch];

    /// Name on the command line.
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

/// Settings of the parts.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct Settings {
    /// Index of the GPU.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: usize,
    /// Folder of the fixtures.
    #[arg(long, value_name = "DIR", default_value = "tests/fixtures")]
    fixtures: PathBuf,
    /// config.json of the 7B model.
    #[arg(long, value_name = "FILE", default_value = "configs/llama2-7b/config.json")]
    config: PathBuf,
    /// Folder of the 7B model; created with random weights if missing.
    #[arg(long, value_name = "DIR", default_value = "gpu-check-model")]
    checkpoint: PathBuf,
    /// Python with torch and transformers.
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// Sequences per training step.
    #[arg(long, value_name = "N", default_value_t = 2)]
    batch: usize,
    /// Tokens per sequence.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    seq: usize,
}

impl Settings {
    /// The settings as flags, for a child process.
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

/// Describes the GPU.
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
        Part::Kernels => kernels::run(&Place::device(device), sink),
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

/// Fills outputs with NaNs before kernels write them.
fn poison(device: &Device) -> Result<(), Error> {
    #[cfg(feature = "cuda")]
    if let Device::Cuda(device) = device {
        spag_ops::kernels::CudaKernels::of(device)?.poison_outputs();
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
