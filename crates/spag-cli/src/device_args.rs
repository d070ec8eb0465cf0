//! The flags of devices and number formats.

use std::path::Path;

use clap::Args;
use spag_dist::LaunchEnv;
use spag_model::{Checkpoint, DeviceChoice, DtypeChoice, LoadOptions, OpenDevice, WeightDtype, load_config};

use crate::{Result, exit};

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
}

impl LoadArgs {
    /// Opens the device.
    ///
    /// # Errors
    /// The device is unusable, or the launcher's environment is invalid.
    pub fn open(&self) -> Result<OpenDevice> {
        self.device.open()
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

    /// Loads the checkpoint at `path`, a folder or a GGUF file, onto the device.
    ///
    /// # Errors
    /// The device is unusable, or the checkpoint cannot be loaded.
    pub fn load(&self, path: &Path) -> Result<Checkpoint> {
        let device = self.open()?.device().clone();
        let dtype = match (self.dtype, device.is_cpu()) {
            (DtypeChoice::Fixed(dtype), _) => dtype,
            // An invalid checkpoint is reported by `load_with`, which has the better message.
            (DtypeChoice::Auto, true) => WeightDtype::F32,
            (DtypeChoice::Auto, false) => self.dtype(path)?,
        };
        Ok(Checkpoint::load_with(path, &LoadOptions { device, dtype })?)
    }
}
