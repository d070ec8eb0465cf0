//! The kinds of GPUs that are planned for, and their published figures.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use spag_model::dtype::WeightDtype;

/// A kind of GPU that a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Gpu {
    /// NVIDIA A100 40GB SXM.
    #[value(name = "a100-40")]
    #[serde(rename = "a100-40")]
    A100Sxm40,
    /// NVIDIA A100 80GB SXM.
    #[value(name = "a100-80")]
    #[serde(rename = "a100-80")]
    A100Sxm80,
    /// NVIDIA H100 80GB SXM.
    H100,
    /// NVIDIA H200 141GB SXM.
    H200,
    /// None: the plan of a run is for this machine.
    #[value(skip)]
    Cpu,
}

/// Published figures per GPU, without sparsity. Rates are per second.
///
/// Sources: NVIDIA A100 Tensor Core GPU datasheet (2021), H100 datasheet (2023), H200 datasheet (2024).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The product's name.
    pub name: &'static str,
    /// Memory in GiB, as the driver reports it.
    pub memory_gib: f64,
    /// bf16 on tensor cores with f32 accumulation.
    pub bf16_flops: f64,
    /// f32 without TF32.
    pub f32_flops: f64,
    /// Bytes between the GPU and its memory.
    pub memory_bytes: f64,
    /// Bytes between GPUs of one host, in each direction.
    pub link_bytes: f64,
    /// Bytes between GPU and host, in each direction.
    pub host_link_bytes: f64,
}

impl Gpu {
    /// Its figures; `None` for [`Gpu::Cpu`].
    pub fn figures(self) -> Option<Figures> {
        let a100 = Figures {
            name: "A100-SXM4-40GB",
            memory_gib: 39.4,
            bf16_flops: 312e12,
            f32_flops: 19.5e12,
            memory_bytes: 1555e9,
            link_bytes: 300e9,
            host_link_bytes: 32e9,
        };
        let h100 = Figures {
            name: "H100-SXM5-80GB",
            memory_gib: 79.1,
            bf16_flops: 989e12,
            f32_flops: 67e12,
            memory_bytes: 3350e9,
            link_bytes: 450e9,
            host_link_bytes: 64e9,
        };
        Some(match self {
            Self::Cpu => return None,
            Self::A100Sxm40 => a100,
            Self::A100Sxm80 => Figures { name: "A100-SXM4-80GB", memory_gib: 79.1, memory_bytes: 2039e9, ..a100 },
            Self::H100 => h100,
            Self::H200 => Figures { name: "H200-SXM-141GB", memory_gib: 139.8, memory_bytes: 4800e9, ..h100 },
        })
    }
}

impl Figures {
    /// FLOP/s of matrix products in a number format.
    pub fn flops(&self, dtype: WeightDtype) -> f64 {
        match dtype {
            WeightDtype::Bf16 => self.bf16_flops,
            WeightDtype::F32 => self.f32_flops,
        }
    }
}
