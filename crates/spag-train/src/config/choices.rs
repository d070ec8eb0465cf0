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
pub(super) fn one_of<T: Copy>(what: &str, text: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
        format!("unknown {what} \"{text}\"; {} and {last} are known", others.join(", "))
    })
}
