//! Which files of a run folder hold games.

use std::fs;
use std::io;
use std::path::Path;

use spag_game::Labels;

/// Files of a list, at most.
const MOST: usize = 1000;

/// A file of games.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GameFile {
    /// Its path in the run folder.
    pub(super) file: String,
    /// What kind of games it holds.
    pub(super) group: &'static str,
    /// A name for people.
    pub(super) title: String,
}

/// All files of games: those of stages, then those of the evaluation, each in order. Links are not followed.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn list(root: &Path, labels: &Labels) -> io::Result<Vec<GameFile>> {
    let mut files = Vec::new();
    for name in names(root, |kind| kind.is_dir())? {
        let file = root.join(&name).join("episodes.jsonl");
        if name != "eval" && fs::symlink_metadata(file).is_ok_and(|file| file.is_file()) {
            let title = format!("{}: games of this stage", shown(&name));
            files.push(GameFile { file: format!("{name}/episodes.jsonl"), group: "Training games", title });
        }
    }
    // A run that has not been evaluated yet has none of these folders.
    for (folder, group) in [("eval", "Evaluation"), ("eval/held-out", "Evaluation, words held out")] {
        if !fs::symlink_metadata(root.join(folder)).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        // The files of pairs of players.
        for name in names(&root.join(folder), |kind| kind.is_file())? {
            if let Some((first, second)) = name.strip_suffix(".jsonl").and_then(|name| name.split_once("-vs-")) {
                let title = labels.pairing(&shown(first), &shown(second));
                files.push(GameFile { file: format!("{folder}/{name}"), group, title });
            }
        }
    }
    files.truncate(MOST);
    Ok(files)
}

/// The name of a stage or a model as in reports.
fn shown(name: &str) -> String {
    name.to_uppercase()
}

/// The names in a folder that are text, sorted.
fn names(folder: &Path, wanted: impl Fn(&fs::FileType) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if wanted(&entry.file_type()?)
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use spag_game::taboo;

    use super::*;

    #[test]
    fn games_are_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(list(root, &taboo::LABELS).unwrap(), []);
        for file in [
            "spag-1/episodes.jsonl",
            "im/episodes.jsonl",
            "im/samples.jsonl",
            "eval/im-vs-spag-1.jsonl",
            "eval/held-out/im-vs-im.jsonl",
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        fs::write(root.join("eval/done.json"), "").unwrap();
        fs::create_dir(root.join("eval/x-vs-y.jsonl")).unwrap();
        fs::create_dir_all(root.join("base/episodes.jsonl")).unwrap();
        fs::create_dir(root.join("linked")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("linked/episodes.jsonl")).unwrap();
        let found = list(root, &taboo::LABELS).unwrap();
        let names: Vec<&str> = found.iter().map(|file| file.file.as_str()).collect();
        let evaluation = ["eval/im-vs-spag-1.jsonl", "eval/held-out/im-vs-im.jsonl"];
        assert_eq!(names, [["im/episodes.jsonl", "spag-1/episodes.jsonl"], evaluation].concat());
        assert_eq!(found[2].title, "IM attacks, SPAG-1 defends");
        assert!(list(&root.join("none"), &taboo::LABELS).is_err());
    }
}
