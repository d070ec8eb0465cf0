//! The stages of a run and how far they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use spag_io::read_whole;

/// Bytes of each small file of a run folder.
const MAX_BYTES: u64 = 1 << 20;
/// Stages of a run.
const MOST: usize = 1000;

/// A stage: an entry of `stages.json`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Stage {
    /// Its name in reports and in the status of ranks.
    pub(super) name: String,
    /// Its folder in the run folder.
    pub(super) folder: String,
    /// Its parts, in order.
    #[serde(default)]
    pub(super) parts: Vec<String>,
}

/// What a finished stage says of itself in `done.json`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Done {
    /// Seconds by part.
    pub(super) seconds: BTreeMap<String, f64>,
    /// Numbers of games, samples, steps …
    pub(super) counts: BTreeMap<String, u64>,
    /// Whether the seconds are those since it was resumed.
    pub(super) resumed: bool,
}

impl Done {
    /// Seconds of all parts; `None` for a stage that has none.
    pub(super) fn total(&self) -> Option<f64> {
        (!self.seconds.is_empty()).then(|| self.seconds.values().sum())
    }
}

impl Stage {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), folder: name.to_owned(), parts: Vec::new() }
    }

    /// The name without a number at its end: stages of one kind take about the same time.
    pub(super) fn kind(&self) -> &str {
        self.name.trim_end_matches(|c: char| c.is_ascii_digit())
    }

    /// What `done.json` says; `None` if the stage is not finished.
    pub(super) fn done(&self, root: &Path) -> Option<Done> {
        let file = root.join(&self.folder).join("done.json");
        let text = small_file(&file)?;
        // The stage is finished, whatever this version of the program can read of it.
        Some(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Whether its folder exists.
    pub(super) fn has_begun(&self, root: &Path) -> bool {
        fs::symlink_metadata(root.join(&self.folder)).is_ok_and(|found| found.is_dir())
    }

    /// The metrics of its training.
    pub(super) fn metrics(&self, root: &Path) -> PathBuf {
        root.join(&self.folder).join("metrics.jsonl")
    }
}

/// The bytes of a small file; `None` if it is missing, unreadable or not small. Links are not followed.
pub(super) fn small_file(path: &Path) -> Option<Vec<u8>> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| read_whole(path, MAX_BYTES).ok())?
}

/// All stages of a run in order: those of `stages.json`, or else as far as they follow from its settings.
pub(super) fn stages(root: &Path) -> Vec<Stage> {
    let listed =
        small_file(&root.join("stages.json")).and_then(|text| serde_json::from_slice::<Vec<Stage>>(&text).ok());
    let stages = listed.unwrap_or_else(|| of_settings(root));
    stages.into_iter().filter(|stage| is_inside(&stage.folder)).take(MOST).collect()
}

/// Whether a folder lies in the run folder by its name.
fn is_inside(folder: &str) -> bool {
    let mut parts = Path::new(folder).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn of_settings(root: &Path) -> Vec<Stage> {
    let text = small_file(&root.join("config.resolved.toml")).and_then(|text| String::from_utf8(text).ok());
    let Some(settings) = text.and_then(|text| text.parse::<toml::Table>().ok()) else { return Vec::new() };
    let epochs = settings.get("epochs").and_then(toml::Value::as_integer).unwrap_or(0);
    let epochs = usize::try_from(epochs).unwrap_or(0).min(MOST);
    let mut stages = vec![Stage::new("base"), Stage::new("im")];
    stages.extend((1..=epochs).map(|epoch| Stage::new(&format!("spag-{epoch}"))));
    stages.push(Stage::new("eval"));
    if settings.contains_key("benchmarks") {
        stages.push(Stage::new("benchmarks"));
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path) -> Vec<String> {
        stages(root).into_iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn stages_follow_from_settings_until_they_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(names(root), [""; 0]);
        fs::write(root.join("config.resolved.toml"), "epochs = 2\n[benchmarks]\ntasks = \"tiny\"").unwrap();
        assert_eq!(names(root), ["base", "im", "spag-1", "spag-2", "eval", "benchmarks"]);
        for settings in ["epochs = -1", "epochs = \"x\""] {
            fs::write(root.join("config.resolved.toml"), settings).unwrap();
            assert_eq!(names(root), ["base", "im", "eval"]);
        }
        fs::write(root.join("config.resolved.toml"), "epochs = 99999999999").unwrap();
        assert_eq!(names(root).len(), MOST);
        fs::write(root.join("config.resolved.toml"), [0xff, 0xfe]).unwrap();
        assert_eq!(names(root), [""; 0]);
        let listed = r#"[{"name": "words", "folder": "words", "parts": ["download"], "new": 1},
            {"name": "out", "folder": "../out"}, {"name": "root", "folder": "/"}, {"name": "none", "folder": ""},
            {"name": "held", "folder": "eval/held-out"}]"#;
        fs::write(root.join("stages.json"), listed).unwrap();
        assert_eq!(names(root), ["words", "held"]);
        assert_eq!(stages(root)[0].parts, ["download"]);
    }

    #[test]
    fn stage_is_finished_whatever_its_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let (root, stage) = (folder.path(), Stage::new("spag-12"));
        assert_eq!((stage.kind(), stage.done(root), stage.has_begun(root)), ("spag-", None, false));
        fs::create_dir(root.join("spag-12")).unwrap();
        assert!(stage.done(root).is_none() && stage.has_begun(root));
        fs::write(root.join("spag-12/done.json"), r#"{"seconds": {"play": 1.5, "train": 2}, "later": []}"#).unwrap();
        assert_eq!(stage.done(root).unwrap().total(), Some(3.5));
        fs::write(root.join("spag-12/done.json"), "nonsense").unwrap();
        assert_eq!(stage.done(root), Some(Done::default()));
    }
}
