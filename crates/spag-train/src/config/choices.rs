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
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sft" => Ok(Self::Sft),
            _ => one_of(
                "training method",
                text,
                &[("SFT", Self::Sft), ("SFTwithKL", Self::SftWithKl), ("OfflinePO", Self::OfflinePo)],
            ),
        }
    }
}

/// Where AdamW's state lies when the model is on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OffloadOptimizer {
    /// With the model where there is room for it, else in the host's memory.
    #[default]
    Auto,
    /// With the model.
    None,
    /// In the host's memory.
    Cpu,
}

impl std::str::FromStr for OffloadOptimizer {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        one_of("place for the optimizer", text, &[("auto", Self::Auto), ("none", Self::None), ("cpu", Self::Cpu)])
    }
}

/// What is split over processes; each stage includes the one before. In JSON a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "u8")]
pub enum ZeroStage {
    /// 0: nothing.
    #[default]
    Disabled,
    /// 1: the optimizer's state.
    OptimizerState,
    /// 2: gradients too.
    Gradients,
    /// 3: weights too.
    Weights,
}

impl ZeroStage {
    /// The stage of a number from 0 to 3.
    pub fn from_number(number: u64) -> Option<Self> {
        [Self::Disabled, Self::OptimizerState, Self::Gradients, Self::Weights]
            .into_iter()
            .find(|stage| u64::from(u8::from(*stage)) == number)
    }
}

impl From<ZeroStage> for u8 {
    fn from(stage: ZeroStage) -> Self {
        match stage {
            ZeroStage::Disabled => 0,
            ZeroStage::OptimizerState => 1,
            ZeroStage::Gradients => 2,
            ZeroStage::Weights => 3,
        }
    }
}

impl std::str::FromStr for ZeroStage {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let stages = [Self::Disabled, Self::OptimizerState, Self::Gradients, Self::Weights];
        one_of("ZeRO stage", text, &[("0", stages[0]), ("1", stages[1]), ("2", stages[2]), ("3", stages[3])])
    }
}

/// Where the parameters of ZeRO stage 3 lie between their uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OffloadParam {
    /// On the device that computes.
    #[default]
    None,
    /// In the host's memory.
    Cpu,
}

impl std::str::FromStr for OffloadParam {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        one_of("place for the parameters", text, &[("none", Self::None), ("cpu", Self::Cpu)])
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
    fn from_str(text: &str) -> Result<Self, String> {
        one_of(
            "scheduler",
            text,
            &[
                ("linear", Self::Linear),
                ("cosine", Self::Cosine),
                ("constant", Self::Constant),
                ("constant_with_warmup", Self::ConstantWithWarmup),
            ],
        )
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
    fn from_str(text: &str) -> Result<Self, String> {
        one_of("data order", text, &[("sequential", Self::Sequential), ("shuffled", Self::Shuffled)])
    }
}

/// When something is done while training goes on: transformers' `IntervalStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntervalStrategy {
    /// Never.
    No,
    /// After every so many steps.
    Steps,
    /// After each epoch.
    Epoch,
}

impl std::str::FromStr for IntervalStrategy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        one_of("strategy", text, &[("no", Self::No), ("steps", Self::Steps), ("epoch", Self::Epoch)])
    }
}

/// The choice that `text` names among those that are known.
fn one_of<T: Copy>(what: &str, text: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
        format!("unknown {what} \"{text}\"; {} and {last} are known", others.join(", "))
    })
}
