//! Device selection.

mod checks;
#[cfg(feature = "cuda")]
mod cuda;

use candle_core::Device;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::memory::{available_memory, total_memory};
use crate::product::CpuPath;

/// A user's choice of the device: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum DeviceChoice {
    /// A CUDA device if the program was built with `cuda` and one is visible, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device with this index; by default the one of the local rank.
    Cuda(Option<usize>),
}

impl DeviceChoice {
    /// Opens the device and checks that it runs this program's kernels. `local_rank` is the rank among the processes on
    /// this machine; it selects the GPU, unless only one is visible. A device is opened once per process.
    ///
    /// # Errors
    /// [`Error::Device`] with the cause and the remedy.
    pub fn open(self, local_rank: usize) -> Result<OpenDevice> {
        match self {
            Self::Cpu => open_cpu(),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => cuda::open(self, index, local_rank),
            #[cfg(feature = "cuda")]
                        Self::Auto if cuda::any_device() => cuda::open(self, None, local_rank),
            #[cfg(feature = "cuda")]
            Self::Auto => open_cpu(),
            #[cfg(not(feature = "cuda"))]
            Self::Auto => {
                let _ = local_rank;
                open_cpu()
            }
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => Err(self.refused(
                "this program was built without the feature `cuda`; build it with `cargo build --release --features cuda \
                 --bins` (docs/CUDA.md says what that needs), or use --device cpu",
            )),
        }
    }

    fn refused(self, reason: impl Into<String>) -> Error {
        Error::Device { device: self.to_string(), reason: reason.into() }
    }
}

/// Opens the CPU, if its kernels can be selected.
fn open_cpu() -> Result<OpenDevice> {
    CpuPath::selected()?;
    Ok(OpenDevice::cpu())
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(index)) => write!(f, "cuda:{index}"),
        }
    }
}

impl std::str::FromStr for DeviceChoice {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown = || format!("unknown device \"{text}\"; expected auto, cpu, cuda or cuda:N");
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            other => match other.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(index)) => Ok(Self::Cuda(Some(index))),
                _ => Err(unknown()),
            },
        }
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

/// An opened device.
#[derive(Clone, Debug)]
pub struct OpenDevice {
    device: Device,
    name: String,
    model: Option<String>,
}

impl OpenDevice {
    /// The CPU.
    pub fn cpu() -> Self {
        Self { device: Device::Cpu, name: "cpu".into(), model: None }
    }

    /// The candle device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The device's name: `cpu`, `cuda:0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A note for the user: on a CPU, the kernels that are disabled because they compute wrong results. Returned to
    /// the first caller of the process only.
    pub fn take_note(&self) -> Option<&'static str> {
        self.device.is_cpu().then(CpuPath::take_note).flatten()
    }

    /// Free and total memory.
    pub fn memory(&self) -> Result<DeviceMemory> {
        free_memory(&self.device)
    }
}

impl std::fmt::Display for OpenDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        match &self.model {
            Some(model) => write!(f, " ({model})"),
            None => Ok(()),
        }
    }
}

/// Memory of a device in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes available for tensors.
    pub free: u64,
    /// Total bytes.
    pub total: u64,
}

/// Free and total memory of a device; for a CPU, of the host or container.
pub fn free_memory(device: &Device) -> Result<DeviceMemory> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::memory(device),
        _ => Ok(DeviceMemory { free: available_memory(), total: total_memory() }),
    }
}

/// Peak memory of the tensors on a device in this process; `None` for a CPU.
pub fn peak_memory(device: &Device) -> Result<Option<u64>> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::peak_memory(device).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_choice_round_trips() {
        for text in ["auto", "cpu", "cuda", "cuda:0", "cuda:7"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        assert_eq!("cuda:3".parse(), Ok(DeviceChoice::Cuda(Some(3))));
        for text in ["", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda0"] {
            let error = text.parse::<DeviceChoice>().unwrap_err();
            assert!(error.contains("expected auto, cpu, cuda or cuda:N"), "{error}");
        }
        assert_eq!(serde_json::to_string(&DeviceChoice::Cuda(Some(1))).unwrap(), "\"cuda:1\"");
        assert_eq!(serde_json::from_str::<DeviceChoice>("\"cpu\"").unwrap(), DeviceChoice::Cpu);
    }

    #[test]
    fn cpu_opens_on_every_local_rank() {
        let open = DeviceChoice::Cpu.open(3).unwrap();
        assert!(open.device().is_cpu());
        assert_eq!((open.name(), open.to_string()), ("cpu", "cpu".to_owned()));
        let memory = open.memory().unwrap();
        assert!(memory.free > 0 && memory.total >= memory.free, "{memory:?}");
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn cuda_without_the_feature_is_rejected_with_build_instructions() {
        let error = DeviceChoice::Cuda(Some(1)).open(0).unwrap_err().to_string();
        assert!(
            error.contains("cuda:1") && error.contains("--features cuda") && error.contains("docs/CUDA.md"),
            "{error}"
        );
        assert!(DeviceChoice::Auto.open(0).unwrap().device().is_cpu());
    }
}
