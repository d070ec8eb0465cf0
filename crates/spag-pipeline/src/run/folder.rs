//! The run folder: whose it is, what it was made with, and which of its stages are done.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use spag_io::write_json_atomically;
use toml::{Table, Value};

use super::crew::Crew;
use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::files::{fingerprint, read_json, write_text};

/// Settings that say where something lies, where what lies there is compared instead by its fingerprint, or on which
/// device it is computed.
const PLACES: [&str; 6] = ["run_dir", "base_model", "lexicon", "words", "prompts", "device"];

/// An open run folder; nobody else can open it until this is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct RunFolder {
    root: PathBuf,
    /// Rank 0 makes what is to be there; the others find it.
    makes: bool,
    // Held, not read: the operating system releases the lock with the file. Rank 0 has it for all ranks of a run.
    _lock: Option<File>,
}

/// Where an input was found, and what was in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
}

impl RunFolder {
    /// Makes or reopens the folder of `config`.
    ///
    /// Refuses a folder in use, and one that was made with other settings or other inputs.
    pub(crate) fn open(config: &RunConfig, crew: &Crew) -> Result<Self> {
        let mut folder = Self { _lock: None, makes: crew.is_first(), root: config.run_dir.clone() };
        crew.first_does(|| {
            let root = &folder.root;
            fs::create_dir_all(root).map_err(Error::io("create this run folder", root))?;
            folder._lock = Some(lock(root)?);
            folder.compare_settings(config)?;
            folder.compare_inputs(config)
        })?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    /// The folder of a stage, made if need be.
    pub(crate) fn stage(&self, name: &str) -> Result<StageFolder> {
        let dir = self.root.join(name);
        let began_before = dir.exists();
        if self.makes {
            fs::create_dir_all(&dir).map_err(Error::io("create it", &dir))?;
        }
        Ok(StageFolder { name: name.to_owned(), dir, began_before })
    }

    fn compare_settings(&self, config: &RunConfig) -> Result<()> {
        let path = self.root.join("config.resolved.toml");
        let now = config.to_toml()?;
        match fs::read_to_string(&path) {
            Ok(was) => {
                let (was, now) = (settings(&was, &path)?, settings(&now, &path)?);
                self.first_difference(&was, &now)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_text(
                &path,
                &format!(
                    "# Every setting of this run as it was resolved; made by `spag run`, compared when it goes on.\n\n{now}"
                ),
            ),
            Err(error) => Err(Error::io("read it", path)(error)),
        }
    }

    fn compare_inputs(&self, config: &RunConfig) -> Result<()> {
        let path = self.root.join("inputs.json");
        let mut now = BTreeMap::new();
        let named = [
            ("base_model", Some(&config.base_model)),
            ("lexicon", config.lexicon.as_ref()),
            ("words", config.words.as_ref()),
            ("prompts", config.prompts.as_ref()),
        ];
        for (name, path) in named {
            if let Some(path) = path {
                now.insert(name.to_owned(), Input { path: path.clone(), sha256: fingerprint(path)? });
            }
        }
        let Some(was) = read_json::<BTreeMap<String, Input>>(&path)? else {
            return Ok(write_json_atomically(&path, &now)?);
        };
        let contents = |inputs: &BTreeMap<String, Input>| -> BTreeMap<String, String> {
            inputs.iter().map(|(name, input)| (name.clone(), format!("contents {:.12}…", input.sha256))).collect()
        };
        self.first_difference(&contents(&was), &contents(&now))
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

/// Takes the folder's lock. The operating system holds it for the living process alone: that of a killed one is free.
fn lock(root: &Path) -> Result<File> {
    let path = root.join("lock");
    let mut options = File::options();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(Error::io("open this lock", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The number is for the reader only; without it the message still says what matters.
            let _ = file.read_to_string(&mut holder);
            return Err(Error::RunLocked { run_dir: root.to_path_buf(), holder: holder.trim().to_owned() });
        }
        Err(TryLockError::Error(error)) => return Err(Error::io("lock it", path)(error)),
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| writeln!(file, "{}", std::process::id()));
    written.map_err(Error::io("write it", path))?;
    Ok(file)
}

/// The settings of a resolved configuration as (dotted key, value), places left out.
fn settings(text: &str, path: &Path) -> Result<BTreeMap<String, String>> {
    let mut table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::DamagedRun { path: path.to_path_buf(), message: error.to_string() })?;
    table.retain(|key, _| !PLACES.contains(&key));
    let mut flat = BTreeMap::new();
    flatten("", &Value::Table(table), &mut flat);
    Ok(flat)
}

fn flatten(prefix: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let dotted = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&dotted, value, flat);
            }
        }
        value => {
            flat.insert(prefix.to_owned(), value.to_string());
        }
    }
}

/// What `done.json` says; written last, so that a stage with it is finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageDone {
    /// The stage's name.
    pub(crate) stage: String,
    /// The seeds of its parts.
    pub(crate) seeds: BTreeMap<String, u64>,
    /// How many games, samples, steps …
    pub(crate) counts: BTreeMap<String, u64>,
    /// Seconds by part.
    pub(crate) seconds: BTreeMap<String, f64>,
    /// Whether it was interrupted and taken up again; `seconds` then counts from its last start.
    pub(crate) resumed: bool,
}

impl StageDone {
    /// Runs one part of the stage and adds its seconds.
    pub(crate) fn timed<T>(&mut self, part: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work()?;
        *self.seconds.entry(part.to_owned()).or_default() += start.elapsed().as_secs_f64();
        Ok(result)
    }

    pub(crate) fn note_seed(&mut self, part: &str, seed: u64) {
        self.seeds.insert(part.to_owned(), seed);
    }

    pub(crate) fn note_count(&mut self, what: &str, count: usize) {
        self.counts.insert(what.to_owned(), count as u64);
    }
}

/// One stage's folder and the names of the files in it.
#[derive(Clone, Debug)]
pub(crate) struct StageFolder {
    name: String,
    dir: PathBuf,
    began_before: bool,
}

impl StageFolder {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn episodes(&self) -> PathBuf {
        self.file("episodes.jsonl")
    }

    pub(crate) fn samples(&self) -> PathBuf {
        self.file("samples.jsonl")
    }

    pub(crate) fn metrics(&self) -> PathBuf {
        self.file("metrics.jsonl")
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.file("model")
    }

    /// What the stage left when it finished; nothing while it has not.
    pub(crate) fn done(&self) -> Result<Option<StageDone>> {
        read_json(&self.file("done.json"))
    }

    /// Marks the stage as finished.
    pub(crate) fn finish(&self, done: StageDone) -> Result<StageDone> {
        let done = StageDone { stage: self.name.clone(), resumed: self.began_before, ..done };
        write_json_atomically(self.file("done.json"), &done)?;
        Ok(done)
    }
}
