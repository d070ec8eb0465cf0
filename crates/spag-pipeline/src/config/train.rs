//! The settings of a training stage: those of `spag-train`, including how the training is sharded.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use spag_train::{Placement, TrainConfig, ZeroStage};

/// `[train]` and `[imitation.train]`: the flags of `spag-train` by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainSettings {
    /// The settings that the result depends on.
    #[serde(flatten)]
    pub config: TrainConfig,
    /// The others.
    #[serde(flatten)]
    pub job: JobSettings,
}

/// What the result of a training does not depend on: how its state is distributed over ranks and memories, and what it is
/// evaluated on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobSettings {
    /// DeepSpeed file: checked against the settings here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deepspeed: Option<PathBuf>,
    /// What is sharded over the ranks; the stage of the DeepSpeed file if absent, or 0 without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_stage: Option<ZeroStage>,
    /// Where the optimizer's state is stored; chosen by free memory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload_optimizer: Option<Placement>,
    /// Where the parameters of ZeRO stage 3 are stored between their uses; on the device if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload_param: Option<Placement>,
    /// Sample files for the evaluation loss, at the end of each epoch unless `evaluation_strategy` says otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eval_data_path: Vec<PathBuf>,
}

impl JobSettings {
    /// The keys in a table of settings.
    pub(crate) const KEYS: [&str; 5] =
        ["deepspeed", "zero_stage", "offload_optimizer", "offload_param", "eval_data_path"];
}

impl TrainSettings {
    /// `config` with the defaults of the others.
    pub fn new(config: TrainConfig) -> Self {
        Self { config, job: JobSettings::default() }
    }
}

impl Deref for TrainSettings {
    type Target = TrainConfig;

    fn deref(&self) -> &TrainConfig {
        &self.config
    }
}

/// Written by hand, since serde's `flatten` loses the line of an error and the names of known keys.
impl<'de> Deserialize<'de> for TrainSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SettingsVisitor)
    }
}

struct SettingsVisitor;

impl<'de> Visitor<'de> for SettingsVisitor {
    type Value = TrainSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of training settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TrainSettings, A::Error> {
        let mut job = JobSettings::default();
        let keys = WithoutJob { map, job: &mut job };
        let config = TrainConfig::deserialize(MapAccessDeserializer::new(keys))?;
        Ok(TrainSettings { config, job })
    }
}

/// The entries of a table except those of [`JobSettings`], which are stored there.
struct WithoutJob<'a, A> {
    map: A,
    job: &'a mut JobSettings,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutJob<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        loop {
            let Some(key) = self.map.next_key_seed(KeySeed { other: &mut seed })? else { return Ok(None) };
            match key {
                Key::Deepspeed => self.job.deepspeed = Some(self.map.next_value()?),
                Key::ZeroStage => self.job.zero_stage = Some(self.map.next_value()?),
                Key::OffloadOptimizer => self.job.offload_optimizer = Some(self.map.next_value()?),
                Key::OffloadParam => self.job.offload_param = Some(self.map.next_value()?),
                Key::EvalDataPath => self.job.eval_data_path = self.map.next_value()?,
                Key::Other(key) => return Ok(Some(key)),
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A key of [`JobSettings`], or another one as its reader has read it.
enum Key<T> {
    Deepspeed,
    ZeroStage,
    OffloadOptimizer,
    OffloadParam,
    EvalDataPath,
    Other(T),
}

/// Reads a key, which the parser's errors then have the line of.
struct KeySeed<'a, K> {
    /// The reader of other keys, taken when it has read one.
    other: &'a mut Option<K>,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<'_, K> {
    type Value = Key<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(deserializer)?;
        Ok(match key.as_str() {
            "deepspeed" => Key::Deepspeed,
            "zero_stage" => Key::ZeroStage,
            "offload_optimizer" => Key::OffloadOptimizer,
            "offload_param" => Key::OffloadParam,
            "eval_data_path" => Key::EvalDataPath,
            other => {
                let seed = self.other.take().ok_or_else(|| D::Error::custom("a key was read twice"))?;
                let other: StrDeserializer<'_, D::Error> = other.into_deserializer();
                // The list of known keys in serde's message lacks those that are read here.
                let unknown = |error: D::Error| {
                    let own = JobSettings::KEYS.map(|key| format!(", `{key}`")).concat();
                    D::Error::custom(format!("{}{own}", error.to_string().trim_end()))
                };
                Key::Other(seed.deserialize(other).map_err(unknown)?)
            }
        })
    }
}
