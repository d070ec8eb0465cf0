//! The run folder: its lock, its settings, and its finished stages.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spag_game::UtteranceRule;
use spag_io::{CommandFiles, Contents, FileLock, Settings as _, read_text, write_atomically, write_json_atomically};
use spag_run::{Stage, files};
use spag_selfplay::content_digest;
use spag_train::JobSettings;
use toml::{Table, Value};

use super::context::RankContext;
use super::stage::StageWork;
use super::stage_folder::{StageFolder, read_run_json};
use super::words::Words;
use crate::config::{RunConfig, load_prompts};
use crate::error::{Error, Result};

/// Settings that may differ when a run resumes: the device and how work is distributed, on which results do not depend, and
/// paths, whose contents are compared instead. [`JobSettings`] are others.
const NOT_COMPARED: [&str; 18] = [
    "run_dir",
    "base_model",
    "lexicon",
    "words.file",
    "prompts",
    "device",
    "imitation.file",
    // Records of games compare what identifies the endpoint.
    "imitation.player",
    "sft.file",
    "self_play.player",
    "self_play.prepare",
    "self_play.requests_in_flight",
    "self_play.requests_per_minute",
    "self_play.request_timeout",
    "self_play.kv_cache_gib",
    "self_play.page_size",
    "self_play.max_step_tokens",
    "self_play.prefix_sharing",
];

/// Tables that may differ: benchmarks compare what they were made with themselves, a stopped run can go on with other rules, and
/// the hardware is for plans only.
const TABLES_NOT_COMPARED: [&str; 3] = ["benchmarks", "stop_when", "hardware"];

/// Bytes of the resolved settings.
const MAX_SETTINGS: u64 = 1 << 20;

/// A run folder, locked until this is dropped or the process ends.
#[derive(Debug)]
pub(super) struct LockedRun {
    pub(super) root: PathBuf,
    is_rank_0: bool,
    /// Held by rank 0 for all ranks.
    _lock: Option<FileLock>,
}

/// The path of an input and the digest of its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) sha256: String,
}

/// The content of `inputs.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Inputs {
    /// The rule for utterances in the wordings of the prompts.
    #[serde(default = "trimmed", skip_serializing_if = "is_trimmed")]
    utterances: String,
    #[serde(flatten)]
    files: BTreeMap<String, Input>,
}

/// The rule that is not noted.
fn trimmed() -> String {
    UtteranceRule::Trimmed.name().to_owned()
}

fn is_trimmed(rule: &str) -> bool {
    rule == UtteranceRule::Trimmed.name()
}

impl Inputs {
    /// What is compared when a run resumes.
    fn contents(&self) -> BTreeMap<String, String> {
        let files = self.files.iter().map(|(name, input)| (name.clone(), format!("contents {:.12}…", input.sha256)));
        files.chain([("utterances".to_owned(), self.utterances.clone())]).collect()
    }
}

impl LockedRun {
    /// Checks that the folder of `config` is new or that of a run, and none of its inputs.
    pub(super) fn check(config: &RunConfig) -> Result<()> {
        let inputs = config.inputs();
        let files = CommandFiles::default();
        let mut files = inputs.iter().fold(files, |files, (setting, path)| files.read(setting, path));
        let kept: &[Contents] = match config.run_dir.join(files::SETTINGS).exists() {
            true => &[Contents::Run, Contents::Training, Contents::Games, Contents::Benchmarks],
            false => &[],
        };
        Ok(files.write_folder("run_dir", &config.run_dir, &[Contents::Run], kept)?)
    }

    /// Creates or reopens the folder of `config`. Fails if it is in use or was made with other settings or inputs.
    pub(super) fn open(config: &RunConfig, ranks: &RankContext) -> Result<Self> {
        let mut folder = Self { _lock: None, is_rank_0: ranks.is_rank_0(), root: config.run_dir.clone() };
        ranks.on_rank_0(|| {
            let root = &folder.root;
            fs::create_dir_all(root).map_err(Error::io("create this run folder", root))?;
            folder._lock = Some(lock(root)?);
            folder.compare_settings(config)?;
            folder.compare_inputs(config)
        })?;
        Ok(folder)
    }

    /// The folder of a stage, created if missing.
    pub(super) fn stage(&self, name: &str) -> Result<StageFolder> {
        let stage = StageFolder::new(self.root.join(name), name);
        if self.is_rank_0 {
            stage.create()?;
        }
        Ok(stage)
    }

    /// Writes the list of stages for those who watch the run.
    pub(super) fn write_stages(&self, stages: &[StageWork]) -> Result<()> {
        let listed: Vec<Stage> = stages.iter().map(|stage| Stage::new(&stage.name, &stage.parts)).collect();
        Ok(write_json_atomically(self.root.join(files::STAGES), &listed)?)
    }

    /// Writes the words that are held out, if any.
    pub(super) fn write_words(&self, words: &Words) -> Result<()> {
        if words.held_out.is_empty() {
            return Ok(());
        }
        let lists = [(files::WORDS, &words.training), (files::HELD_OUT_WORDS, &words.held_out)];
        lists.into_iter().try_for_each(|(name, words)| {
            let lines: String = words.iter().map(|word| format!("{word}\n")).collect();
            Ok(write_atomically(self.root.join(name), lines)?)
        })
    }

    fn compare_settings(&self, config: &RunConfig) -> Result<()> {
        let path = self.root.join(files::SETTINGS);
        let now = config.to_toml()?;
        match read_text(&path, MAX_SETTINGS) {
            Ok(was) => {
                let (was, now) = (settings(&was, &path)?, settings(&now, &path)?);
                self.first_difference(&was, &now)
            }
            Err(spag_io::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(write_atomically(
                &path,
                format!(
                    "# Every setting of this run as it was resolved; made by `spag run`, compared when it resumes.\n\n{now}"
                ),
            )?),
            Err(error) => Err(error.into()),
        }
    }

    fn compare_inputs(&self, config: &RunConfig) -> Result<()> {
        let path = self.root.join(files::INPUTS);
        let prompts = load_prompts(config.prompts.as_deref(), config.prompt_format)?;
        let mut now = Inputs { utterances: prompts.utterance_rule().name().to_owned(), files: BTreeMap::new() };
        for (name, path) in config.inputs() {
            now.files.insert(name, Input { sha256: content_digest(&path)?, path });
        }
        let Some(was) = read_run_json::<Inputs>(&path)? else {
            return Ok(write_json_atomically(&path, &now)?);
        };
        self.first_difference(&was.contents(), &now.contents())
    }

    fn first_difference(&self, was: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<()> {
        let absent = || "(not set)".to_owned();
        match was.keys().chain(now.keys()).find(|key| was.get(*key) != now.get(*key)) {
            None => Ok(()),
            Some(key) => Err(Error::RunDiffers {
                run_dir: self.root.clone(),
                key: key.clone(),
                was: was.get(key).cloned().unwrap_or_else(absent),
                now: now.get(key).cloned().unwrap_or_else(absent),
            }),
        }
    }
}

/// Takes the lock of the folder.
fn lock(root: &Path) -> Result<FileLock> {
    FileLock::try_acquire(root.join(files::LOCK)).map_err(|error| match error {
        spag_io::Error::InUse { holder, .. } => {
            let holder = holder.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
            Error::RunLocked { run_dir: root.to_path_buf(), holder }
        }
        error => error.into(),
    })
}

/// The compared settings of a resolved configuration, as (dotted key, value).
fn settings(text: &str, path: &Path) -> Result<BTreeMap<String, String>> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::DamagedRun { path: path.to_path_buf(), message: error.to_string() })?;
    let mut flat = BTreeMap::new();
    flatten("", &Value::Table(table), &mut flat);
    flat.retain(|key, _| is_compared(key));
    Ok(flat)
}

fn is_compared(key: &str) -> bool {
    let table = key.split_once('.').map_or("", |(table, _)| table);
    let is_of_job = match key.rsplit_once('.') {
        Some(("train" | "imitation.train", key)) => JobSettings::names().contains(&key),
        _ => false,
    };
    let is_data = table == "games" && key.ends_with(".data");
    !is_of_job && !is_data && !NOT_COMPARED.contains(&key) && !TABLES_NOT_COMPARED.contains(&table)
}

fn flatten(prefix: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let dotted = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&dotted, value, flat);
            }
        }
        Value::Array(tables) if prefix == "games" => {
            for (at, table) in tables.iter().enumerate() {
                flatten(&format!("{prefix}.{at}"), table, flat);
            }
        }
        value => {
            flat.insert(prefix.to_owned(), value.to_string());
        }
    }
}
