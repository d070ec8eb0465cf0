//! A run folder as other programs read it, also while the run goes on.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value};
use spag_io::EnclosedFolder;

use crate::files;
use crate::follow::{FileIdentity, Follower, identity};
use crate::stages::{Stage, StageDone};

/// Bytes of each small file of a run folder.
const MAX_BYTES: u64 = 1 << 20;
/// Stages of a run.
const MOST: usize = 1000;

/// Which run a folder holds: another one has other settings.
pub type RunIdentity = (FileIdentity, Option<SystemTime>);

/// A run folder that is read. Links in it are not followed; what is missing, unreadable or too long counts as absent.
#[derive(Clone, Debug)]
pub struct RunFolder(EnclosedFolder);

impl RunFolder {
    /// The folder at `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(EnclosedFolder::new(root))
    }

    /// Its files.
    pub fn files(&self) -> &EnclosedFolder {
        &self.0
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        self.0.root()
    }

    /// The bytes of a small file; `None` if it is missing, unreadable or not small.
    pub fn small_file(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.0.read_whole(path, MAX_BYTES).ok()
    }

    /// The text of the resolved settings.
    pub fn settings(&self) -> Option<String> {
        String::from_utf8(self.small_file(files::SETTINGS)?).ok()
    }

    /// What tells its run from one that it held before; `None` if there is none.
    pub fn identity(&self) -> Option<RunIdentity> {
        let found = self.0.open(files::SETTINGS).and_then(|file| file.metadata()).ok()?;
        Some((identity(&found), found.modified().ok()))
    }

    /// The stages of the run in order, as far as they are listed.
    pub fn stages(&self) -> Vec<Stage> {
        let listed = self.small_file(files::STAGES).and_then(|text| serde_json::from_slice::<Vec<Stage>>(&text).ok());
        listed.unwrap_or_default().into_iter().filter(Stage::is_inside).take(MOST).collect()
    }

    /// What `done.json` of a stage says; `None` if the stage is not finished.
    pub fn done(&self, stage: &Stage) -> Option<StageDone> {
        let text = self.small_file(Path::new(&stage.folder).join(files::DONE))?;
        // The stage is finished, whatever this version of the program can read of it.
        Some(readable(&text).unwrap_or_default())
    }

    /// Whether the folder of a stage exists.
    pub fn has_begun(&self, stage: &Stage) -> bool {
        self.0.has_folder(&stage.folder)
    }

    /// The metrics of a stage's training.
    pub fn metrics(&self, stage: &Stage) -> Follower {
        Follower::new(&self.0, Path::new(&stage.folder).join(files::METRICS))
    }
}

/// What `done.json` of any version says under the keys of this one.
fn readable(text: &[u8]) -> serde_json::Result<StageDone> {
    let said: Map<String, Value> = serde_json::from_slice(text)?;
    let mut known = serde_json::to_value(StageDone::default())?;
    for (key, value) in said {
        if let Some(place) = known.get_mut(&key) {
            *place = value;
        }
    }
    serde_json::from_value(known)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(root: &Path) -> Vec<String> {
        RunFolder::new(root).stages().into_iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn listed_stages_lie_in_the_run_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(names(root), [""; 0]);
        fs::write(root.join("stages.json"), [0xff, 0xfe]).unwrap();
        assert_eq!(names(root), [""; 0]);
        let listed = r#"[{"name": "words", "folder": "words", "parts": ["download"], "new": 1},
            {"name": "out", "folder": "../out"}, {"name": "root", "folder": "/"}, {"name": "none", "folder": ""},
            {"name": "held", "folder": "eval/held-out"}]"#;
        fs::write(root.join("stages.json"), listed).unwrap();
        assert_eq!(names(root), ["words", "held"]);
        assert_eq!(RunFolder::new(root).stages()[0].parts, ["download"]);
        let many: Vec<Stage> = (0..MOST + 1).map(|at| Stage::new(&format!("spag-{at}"), &[])).collect();
        fs::write(root.join("stages.json"), serde_json::to_vec(&many).unwrap()).unwrap();
        assert_eq!(names(root).len(), MOST);
    }

    #[test]
    fn stage_is_finished_whatever_its_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let (root, stage) = (folder.path(), Stage::new("spag-12", &[]));
        let run = RunFolder::new(root);
        assert_eq!((stage.kind(), run.done(&stage), run.has_begun(&stage)), ("spag-", None, false));
        fs::create_dir(root.join("spag-12")).unwrap();
        assert!(run.done(&stage).is_none() && run.has_begun(&stage));
        fs::write(root.join("spag-12/done.json"), r#"{"seconds": {"play": 1.5, "train": 2}, "later": []}"#).unwrap();
        assert_eq!(run.done(&stage).unwrap().total(), Some(3.5));
        fs::write(root.join("spag-12/done.json"), "nonsense").unwrap();
        assert_eq!(run.done(&stage), Some(StageDone::default()));
    }
}
