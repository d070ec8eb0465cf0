//! The settings that are one of a few words.

use serde::{Deserialize, Serialize};

/// Which loss is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrainMethod {
    /// Cross-entropy over target tokens.
    #[default]
    #[serde(rename = "SFT", alias = "sft")]
    Sft,
    /// Imitation: weighted log-likelihood with a KL term against the reference model.
    #[serde(rename = "SFTwithKL")]
    SftWithKl,
    /// Offline policy optimisation: clipped importance-weighted rewards with a KL term, mixed with SFT data.
    #[serde(rename = "OfflinePO")]
    OfflinePo,
}

impl TrainMethod {
    /// Whether the loss compares with a frozen reference model.
    pub fn needs_reference(self) -> bool {
        self != Self::Sft
    }
}

impl std::str::FromStr for TrainMethod {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "SFT" | "sft" => Ok(Self::Sft),
            "SFTwithKL" => Ok(Self::SftWithKl),
            "OfflinePO" => Ok(Self::OfflinePo),
            other => Err(format!("unknown training method \"{other}\"; SFT, SFTwithKL and OfflinePO are known")),
        }
    }
}

/// How the learning rate moves after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerType {
    /// Straight down to 0: Hugging Face's default.
    #[default]
    Linear,
    /// Half a cosine down to 0.
    Cosine,
    /// No warm-up, no decay.
    Constant,
    /// Warm-up, then no decay.
    ConstantWithWarmup,
}

impl std::str::FromStr for SchedulerType {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "linear" => Ok(Self::Linear),
            "cosine" => Ok(Self::Cosine),
            "constant" => Ok(Self::Constant),
            "constant_with_warmup" => Ok(Self::ConstantWithWarmup),
            other => Err(format!(
                "unknown scheduler \"{other}\"; linear, cosine, constant and constant_with_warmup are known"
            )),
        }
    }
}

/// In which order samples are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataOrder {
    /// As they lie in the files, every epoch.
    Sequential,
    /// Shuffled anew each epoch from the seed.
    #[default]
    Shuffled,
}

impl std::str::FromStr for DataOrder {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "sequential" => Ok(Self::Sequential),
            "shuffled" => Ok(Self::Shuffled),
            other => Err(format!("unknown data order \"{other}\"; sequential and shuffled are known")),
        }
    }
}

/// When checkpoints are written besides the final model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveStrategy {
    /// Only at the end.
    No,
    /// After every `save_steps` steps: Hugging Face's default.
    #[default]
    Steps,
    /// After each epoch.
    Epoch,
}

impl std::str::FromStr for SaveStrategy {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "no" => Ok(Self::No),
            "steps" => Ok(Self::Steps),
            "epoch" => Ok(Self::Epoch),
            other => Err(format!("unknown save strategy \"{other}\"; no, steps and epoch are known")),
        }
    }
}

/// When the loss on evaluation data is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvaluationStrategy {
    /// Never: Hugging Face's default.
    #[default]
    No,
    /// After every `eval_steps` steps.
    Steps,
    /// After each epoch.
    Epoch,
}

impl std::str::FromStr for EvaluationStrategy {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "no" => Ok(Self::No),
            "steps" => Ok(Self::Steps),
            "epoch" => Ok(Self::Epoch),
            other => Err(format!("unknown evaluation strategy \"{other}\"; no, steps and epoch are known")),
        }
    }
}
