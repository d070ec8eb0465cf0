//! Which files of a run folder hold games.

use std::io;

use spag_io::{EnclosedFolder, EntryKind};
use spag_run::{RunFolder, files};

use super::games::RunGames;

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

/// All files of games: those of stages, then those of the evaluation, each in order. Each of several games has a folder in
/// that of a stage. Links are not followed.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn list(run: &RunFolder, games: &RunGames) -> io::Result<Vec<GameFile>> {
    let (run, mut found) = (run.files(), Vec::new());
    for stage in names(run, "", EntryKind::Folder)?.iter().filter(|stage| *stage != files::EVALUATION) {
        for folder in folders(stage, games) {
            let file = format!("{folder}/{}", files::EPISODES);
            if run.has_file(&file) {
                let title = games.title(&file);
                found.push(GameFile { file, group: "Training games", title });
            }
        }
    }
    // A run that has not been evaluated yet has none of these folders.
    for folder in folders(files::EVALUATION, games) {
        let held_out = format!("{folder}/{}", files::HELD_OUT);
        for (folder, group) in [(&folder, "Evaluation"), (&held_out, "Evaluation, words held out")] {
            if !run.has_folder(folder) {
                continue;
            }
            // The files of pairs of players.
            for name in names(run, folder, EntryKind::File)? {
                if name.strip_suffix(".jsonl").is_some_and(|name| name.contains("-vs-")) {
                    let file = format!("{folder}/{name}");
                    found.push(GameFile { title: games.title(&file), file, group });
                }
            }
        }
    }
    found.truncate(MOST);
    Ok(found)
}

/// The folder of a stage, and those of each of several games in it.
fn folders(stage: &str, games: &RunGames) -> Vec<String> {
    let own = games.folders().map(|game| format!("{stage}/{game}"));
    std::iter::once(stage.to_owned()).chain(own).collect()
}

/// The names of all folders or files in a folder.
fn names(run: &EnclosedFolder, folder: &str, wanted: EntryKind) -> io::Result<Vec<String>> {
    let entries = run.entries(folder)?.into_iter().filter(|(_, kind)| *kind == wanted);
    Ok(entries.map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use spag_game::Taboo;

    use super::*;

    #[test]
    fn games_are_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let games = RunGames::one(Arc::new(Taboo::default()));
        assert_eq!(list(&RunFolder::new(root), &games).unwrap(), []);
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
        let found = list(&RunFolder::new(root), &games).unwrap();
        let names: Vec<&str> = found.iter().map(|file| file.file.as_str()).collect();
        let evaluation = ["eval/im-vs-spag-1.jsonl", "eval/held-out/im-vs-im.jsonl"];
        assert_eq!(names, [["im/episodes.jsonl", "spag-1/episodes.jsonl"], evaluation].concat());
        assert_eq!(found[2].title, "IM attacks, SPAG-1 defends");
        assert!(list(&RunFolder::new(root.join("none")), &games).is_err());
    }

    #[test]
    fn each_of_several_games_has_a_folder_in_that_of_a_stage() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let settings = "judge = \"paper\"\n[[games]]\ngame = \"nim\"\n[[games]]\ngame = \"kuhn-poker\"\nshare = 2.0\n";
        fs::write(root.join("config.resolved.toml"), settings).unwrap();
        let files = ["im/kuhn-poker/episodes.jsonl", "im/nim/episodes.jsonl", "eval/nim/im-vs-im.jsonl"];
        for file in files.into_iter().chain(["im/other/episodes.jsonl"]) {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        let games = RunGames::of_settings(&RunFolder::new(root)).unwrap();
        let found = list(&RunFolder::new(root), &games).unwrap();
        let mut names: Vec<&str> = found.iter().map(|file| file.file.as_str()).collect();
        names[..2].sort();
        assert_eq!(names, files);
        assert_eq!(files.map(|file| games.labels(file).name), ["kuhn-poker", "nim", "nim"]);
        assert_eq!(found[2].title, "nim: IM plays as player 0, IM plays as player 1");
    }
}
