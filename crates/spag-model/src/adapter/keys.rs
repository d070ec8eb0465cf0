//! `adapter_config.json` in PEFT's format: parsing, validation and writing.

use std::path::Path;

use serde_json::{Map, Value, json};
use spag_io::{quote, read_whole};

use super::config::{LoraConfig, Scaling, rank_of, shown};
use super::modules::{ALL_LINEAR, Pattern, Targets};
use crate::checkpoint::folders_with;
use crate::error::{Error, Result};

pub(super) const FILE: &str = "adapter_config.json";
/// Maximum bytes of `adapter_config.json`.
const MAX_BYTES: u64 = 1 << 20;

/// Keys without effect on the computation, in addition to those that are read.
const WITHOUT_EFFECT: [&str; 11] = [
    "auto_mapping",
    "inference_mode",
    // Of training.
    "lora_dropout",
    "loftq_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
    "ensure_weight_tying",
];

/// Initialisations that leave the base model's weights unchanged.
const INITIALISATIONS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

impl LoraConfig {
    /// The settings as written to `adapter_config.json`.
    pub(super) fn to_json(&self) -> Value {
        let ranks: Map<_, _> = self.ranks.iter().map(|(key, rank)| (key.text().to_owned(), json!(rank))).collect();
        let alphas: Map<_, _> = self.alphas.iter().map(|(key, alpha)| (key.text().to_owned(), json!(alpha))).collect();
        let mut keys = json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": self.base,
            "r": self.rank,
            "lora_alpha": self.alpha,
            "lora_dropout": 0.0,
            "target_modules": self.targets.to_json(),
            "rank_pattern": ranks,
            "alpha_pattern": alphas,
            "bias": "none",
            "fan_in_fan_out": false,
            "use_rslora": self.scaling == Scaling::RootOfRank,
            "inference_mode": true,
        });
        for (key, value) in [
            ("exclude_modules", self.excluded.as_ref().map(Targets::to_json)),
            ("layers_to_transform", self.blocks.as_ref().map(|blocks| json!(blocks))),
        ] {
            keys.as_object_mut().into_iter().zip(value).for_each(|(keys, value)| drop(keys.insert(key.into(), value)));
        }
        keys
    }

    /// Reads `adapter_config.json` of a folder.
    ///
    /// # Errors
    /// A missing or malformed file; a setting that is not supported, such as DoRA; an unknown key that is not null, false or empty.
    pub fn load(dir: impl AsRef<Path>) -> Result<Self> {
        let path = dir.as_ref().join(FILE);
        if let (Ok(false), Some(folders)) = (path.try_exists(), folders_with(dir.as_ref(), FILE)) {
            let reason = format!("there is no {FILE} in this folder, but in {folders}; name one of them");
            return Err(Error::Adapter { path: dir.as_ref().to_owned(), reason });
        }
        let json = |reason: String| Error::Json { path: path.clone(), what: FILE, reason };
        let keys: Map<String, Value> =
            serde_json::from_slice(&read_whole(&path, MAX_BYTES)?).map_err(|error| json(quote(&error.to_string())))?;
        Self::parse(keys).map_err(json)
    }

    fn parse(mut keys: Map<String, Value>) -> Result<Self, String> {
        let mut take = |key: &str| keys.remove(key).filter(|value| !is_unset(value));
        match take("peft_type") {
            Some(Value::String(kind)) if kind == "LORA" => {}
            other => return Err(format!("peft_type is {}; \"LORA\" can be read", shown(other.as_ref()))),
        }
        let rank = rank(take("r").as_ref()).map_err(|reason| format!("r: {reason}"))?;
        let alpha = take("lora_alpha").as_ref().and_then(Value::as_f64).filter(|alpha| alpha.is_finite());
        let alpha = alpha.ok_or("lora_alpha must be a number")?;
        let targets = take("target_modules").ok_or("target_modules is not set")?;
        let targets = match targets.as_str() {
            Some(ALL_LINEAR) => Targets::AllLinear,
            _ => modules("target_modules", targets)?,
        };
        let excluded = take("exclude_modules").map(|value| modules("exclude_modules", value)).transpose()?;
        let blocks = blocks(take("layers_to_transform"), take("layers_pattern"))?;
        if let (Some(_), Targets::Matching(_)) = (&blocks, &targets) {
            return Err(
                "layers_to_transform needs a list as target_modules; PEFT refuses it beside a regular expression"
                    .into(),
            );
        }
        let ranks = patterns(take("rank_pattern"), "rank_pattern", rank_of)?;
        let alphas = patterns(take("alpha_pattern"), "alpha_pattern", |value| {
            value.as_f64().filter(|alpha| alpha.is_finite()).ok_or_else(|| "expected a number".to_owned())
        })?;
        let scaling = match take("use_rslora") {
            None => Scaling::Rank,
            Some(Value::Bool(true)) => Scaling::RootOfRank,
            Some(other) => return Err(format!("use_rslora is {other}; expected true or false")),
        };
        match take("init_lora_weights") {
            None | Some(Value::Bool(_)) => {}
            Some(Value::String(name)) if INITIALISATIONS.contains(&name.as_str()) => {}
            Some(other) => {
                return Err(format!(
                    "init_lora_weights is {}, which also changes the base model; merge the adapter with PEFT, or train \
                     it with another initialisation",
                    shown(Some(&other))
                ));
            }
        }
        match take("bias") {
            None => {}
            Some(Value::String(bias)) if bias == "none" => {}
            Some(other) => return Err(format!("bias is {}; only \"none\" is supported", shown(Some(&other)))),
        }
        let base = match take("base_model_name_or_path") {
            Some(Value::String(base)) => Some(base),
            _ => None,
        };
        for key in WITHOUT_EFFECT {
            keys.remove(key);
        }
        match keys.into_iter().find(|(_, value)| !is_unset(value)) {
            Some((key, value)) => Err(format!("{} is {}, which is not supported", quote(&key), shown(Some(&value)))),
            None => Ok(Self { rank, alpha, targets, excluded, blocks, ranks, alphas, scaling, base }),
        }
    }
}

/// Null, false, an empty list or an empty table: PEFT's values for unused options.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

fn rank(value: Option<&Value>) -> Result<usize, String> {
    value.map_or_else(|| Err("it is not set".to_owned()), rank_of)
}

/// Parses a list of names, or a regular expression.
fn modules(key: &str, value: Value) -> Result<Targets, String> {
    match value {
        Value::Array(names) => {
            let name =
                |name: &Value| name.as_str().map(str::to_owned).ok_or(format!("{key} has {name}, which is no name"));
            Ok(Targets::Named(names.iter().map(name).collect::<Result<_, _>>()?))
        }
        Value::String(pattern) => {
            Ok(Targets::Matching(Pattern::of_names(&pattern).map_err(|reason| format!("{key}: {reason}"))?))
        }
        other => {
            let shown = shown(Some(&other));
            Err(format!("{key} is {shown}; expected a list of names or a regular expression"))
        }
    }
}

/// The numbers of `layers_to_transform`, if set. `layers_pattern` must name the list of blocks, `layers`.
fn blocks(value: Option<Value>, pattern: Option<Value>) -> Result<Option<Vec<usize>>, String> {
    let Some(value) = value else { return Ok(None) };
    let patterns = match pattern {
        None => Vec::new(),
        Some(Value::Array(patterns)) => patterns,
        Some(pattern) => vec![pattern],
    };
    if !patterns.is_empty() && !patterns.iter().any(|pattern| pattern == "layers") {
        let named = shown(Some(&patterns.into()));
        return Err(format!(
            "layers_pattern is {named}, but the blocks of the models that can be read are in \"layers\""
        ));
    }
    let numbers = match value {
        Value::Array(numbers) => numbers,
        number => vec![number],
    };
    let number = |number: &Value| {
        let wrong = || format!("layers_to_transform has {}; expected numbers of layers", shown(Some(number)));
        number.as_u64().and_then(|number| usize::try_from(number).ok()).ok_or_else(wrong)
    };
    numbers.iter().map(number).collect::<Result<_, _>>().map(Some)
}

/// Parses a table of patterns.
fn patterns<T>(
    value: Option<Value>,
    key: &str,
    of: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<(Pattern, T)>, String> {
    let entries = match value {
        None => return Ok(Vec::new()),
        Some(Value::Object(entries)) => entries,
        Some(other) => return Err(format!("{key} is {}; expected a table", shown(Some(&other)))),
    };
    let entry = |(pattern, value): (String, Value)| Ok((Pattern::of_ends(&pattern)?, of(&value)?));
    entries.into_iter().map(entry).collect::<Result<_, String>>().map_err(|reason| format!("{key}: {reason}"))
}
