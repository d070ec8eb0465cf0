//! Where models compute, and in which number format, as flags say it.

use std::path::Path;

use clap::Args;
use spag_dist::LaunchEnv;
use spag_model::{Checkpoint, DeviceChoice, DtypeChoice, LlamaConfig, LoadOptions, OpenDevice, WeightDtype};

use crate::Result;

/// The flag of everything that computes.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct DeviceArgs {
    /// Where models compute: cpu, cuda (the GPU of this process's number on its machine), cuda:N, or auto, which is cuda
    /// where this program was built for it and there is a GPU.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto, help_heading = "Device")]
    pub device: DeviceChoice,
}

impl DeviceArgs {
    /// Opens the device; one that cannot be used is found out here, before anything is loaded.
    pub fn open(&self) -> Result<OpenDevice> {
        Ok(self.device.open(LaunchEnv::detect()?.local_rank)?)
    }
}

/// The flags of everything that generates.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct LoadArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// Number format of weights and arithmetic: f32, bf16, or auto, which is f32 on a CPU and elsewhere bf16 where the
    /// checkpoint has 16 bits a weight. On a CPU arithmetic is f32 either way.
    #[arg(long, value_name = "TYPE", default_value_t = DtypeChoice::Auto, help_heading = "Device")]
    dtype: DtypeChoice,
}

impl LoadArgs {
    /// Opens the device.
    pub fn open(&self) -> Result<OpenDevice> {
        self.device.open()
    }

    /// The number format that the model in `folder` will have.
    pub fn dtype(&self, folder: &Path) -> Result<WeightDtype> {
        let device = self.open()?;
        let config = LlamaConfig::from_file(folder.join("config.json"))?;
        Ok(self.dtype.resolve(&config, device.device()))
    }

    /// Loads the checkpoint in `folder` onto the device.
    pub fn load(&self, folder: &Path) -> Result<Checkpoint> {
        let device = self.open()?.device().clone();
        let dtype = match (self.dtype, device.is_cpu()) {
            (DtypeChoice::Fixed(dtype), _) => dtype,
            // The folder is looked at by whoever loads it, who has more to say of one that is none.
            (DtypeChoice::Auto, true) => WeightDtype::F32,
            (DtypeChoice::Auto, false) => self.dtype(folder)?,
        };
        Ok(Checkpoint::load_with(folder, &LoadOptions { device, dtype })?)
    }
}
