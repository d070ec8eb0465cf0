//! Number formats of weights.

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device};
use serde::{Deserialize, Serialize};

use crate::config::ModelConfig;

/// Number format of weights, in memory and in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightDtype {
    /// 32 bits.
    #[default]
    F32,
    /// bfloat16.
    Bf16,
}

impl WeightDtype {
    /// Bytes per weight.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// The format named by `config.json`, f32 by default; bf16 for other 16-bit formats.
    pub fn stored(config: &ModelConfig) -> Self {
        // Newer versions of transformers use the key `dtype`.
        let named = ["torch_dtype", "dtype"].iter().find_map(|key| config.keys().get(*key)?.as_str());
        match named {
            Some("bfloat16" | "float16") => Self::Bf16,
            _ => Self::F32,
        }
    }

    /// PyTorch's name, as in `config.json`.
    pub(crate) fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
        }
    }

    pub(crate) fn safetensors(self) -> safetensors::Dtype {
        match self {
            Self::F32 => safetensors::Dtype::F32,
            Self::Bf16 => safetensors::Dtype::BF16,
        }
    }
}

impl From<WeightDtype> for DType {
    fn from(dtype: WeightDtype) -> Self {
        match dtype {
            WeightDtype::F32 => Self::F32,
            WeightDtype::Bf16 => Self::BF16,
        }
    }
}

impl std::fmt::Display for WeightDtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.torch_name())
    }
}

impl std::str::FromStr for WeightDtype {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "f32" | "float32" => Ok(Self::F32),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            other => Err(format!("unknown number format \"{other}\"; expected f32 or bf16")),
        }
    }
}

/// The user's choice of number format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum DtypeChoice {
    /// f32 on a CPU. On a GPU, bf16 if the checkpoint has 16-bit weights, else f32.
    #[default]
    Auto,
    /// The given format.
    Fixed(WeightDtype),
}

impl DtypeChoice {
    /// The number format for a checkpoint on `device`.
    pub fn resolve(self, config: &ModelConfig, device: &Device) -> WeightDtype {
        match self {
            Self::Fixed(dtype) => dtype,
            Self::Auto if device.is_cpu() => WeightDtype::F32,
            Self::Auto => WeightDtype::stored(config),
        }
    }
}

impl std::str::FromStr for DtypeChoice {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            other => other
                .parse()
                .map(Self::Fixed)
                .map_err(|_| format!("unknown number format \"{other}\"; expected auto, f32 or bf16")),
        }
    }
}

impl TryFrom<String> for DtypeChoice {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl From<DtypeChoice> for String {
    fn from(choice: DtypeChoice) -> Self {
        choice.to_string()
    }
}

impl std::fmt::Display for DtypeChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(dtype) => dtype.fmt(f),
        }
    }
}

/// Number format of a stored tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredDtype {
    /// A format supported by candle; rows are whole blocks.
    Read(GgmlDType),
    /// An unsupported format: its name.
    Other(String),
}
