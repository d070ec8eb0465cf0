//! The stages of a run and how far they are.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::Deserialize;
use spag_io::EnclosedFolder;

use super::follow::Follower;

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
    pub(super) fn done(&self, run: &EnclosedFolder) -> Option<Done> {
        let text = small_file(run, Path::new(&self.folder).join("done.json"))?;
        // The stage is finished, whatever this version of the program can read of it.
        Some(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Whether its folder exists.
    pub(super) fn has_begun(&self, run: &EnclosedFolder) -> bool {
        run.has_folder(&self.folder)
    }

    /// The metrics of its training.
    pub(super) fn metrics(&self, run: &EnclosedFolder) -> Follower {
        Follower::new(run, Path::new(&self.folder).join("metrics.jsonl"))
    }
}

/// The bytes of a small file; `None` if it is missing, unreadable or not small.
pub(super) fn small_file(run: &EnclosedFolder, path: impl AsRef<Path>) -> Option<Vec<u8>> {
    run.read_whole(path, MAX_BYTES).ok()
}

/// All stages of a run in order: those of `stages.json`, or else as far as they follow from its settings.
pub(super) fn stages(run: &EnclosedFolder) -> Vec<Stage> {
    let listed = small_file(run, "stages.json").and_then(|text| serde_json::from_slice::<Vec<Stage>>(&text).ok());
    let stages = listed.unwrap_or_else(|| of_settings(run));
    stages.into_iter().filter(|stage| is_inside(&stage.folder)).take(MOST).collect()
}

/// Whether a folder lies in the run folder by its name.
fn is_inside(folder: &str) -> bool {
    let mut parts = Path::new(folder).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn of_settings(run: &EnclosedFolder) -> Vec<Stage> {
    let text = small_file(run, "config.resolved.toml").and_then(|text| String::from_utf8(text).ok());
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
    use std::fs;

    use super::*;

    fn names(root: &Path) -> Vec<String> {
        stages(&EnclosedFolder::new(root)).into_iter().map(|stage| stage.name).collect()
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
        assert_eq!(stages(&EnclosedFolder::new(root))[0].parts, ["download"]);
    }

    #[test]
    fn stage_is_finished_whatever_its_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let (root, stage) = (folder.path(), Stage::new("spag-12"));
        let run = &EnclosedFolder::new(root);
        assert_eq!((stage.kind(), stage.done(run), stage.has_begun(run)), ("spag-", None, false));
        fs::create_dir(root.join("spag-12")).unwrap();
        assert!(stage.done(run).is_none() && stage.has_begun(run));
        fs::write(root.join("spag-12/done.json"), r#"{"seconds": {"play": 1.5, "train": 2}, "later": []}"#).unwrap();
        assert_eq!(stage.done(run).unwrap().total(), Some(3.5));
        fs::write(root.join("spag-12/done.json"), "nonsense").unwrap();
        assert_eq!(stage.done(run), Some(Done::default()));
    }
}
