//! An archive of a release, in which the commands of the README work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use spag_tests::{json, program, root, run, run_tiny};

/// The archive with the programs of this build, unpacked in `dir`.
fn unpacked(dir: &Path) -> PathBuf {
    let built = program("spag");
    let built = Path::new(built.get_program()).parent().unwrap();
    let mut release = Command::new("scripts/release.sh");
    release.arg(dir.join("dist")).arg("test").env("PROGRAMS", built).current_dir(root());
    run(&mut release, 0);
    let archive = fs::read_dir(dir.join("dist")).unwrap().map(|entry| entry.unwrap().path());
    let archive = archive.into_iter().find(|path| path.extension().is_some_and(|end| end == "gz")).unwrap();
    run(Command::new("tar").arg("-xzf").arg(&archive).current_dir(dir), 0);
    dir.join(archive.file_name().unwrap().to_str().unwrap().strip_suffix(".tar.gz").unwrap())
}

#[test]
fn first_command_of_the_readme_works_in_an_unpacked_archive() {
    let dir = tempfile::tempdir().unwrap();
    let folder = unpacked(dir.path());
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("spag run configs/tiny.toml"));
    // In small, with the program of the archive.
    let tiny = run_tiny(&folder.join("runs/tiny"), &[]);
    let mut spag = Command::new(folder.join("bin/spag"));
    run(spag.args(tiny.get_args()).current_dir(&folder).env_remove("SPAG_PROMPTS"), 0);
    assert!(json(folder.join("runs/tiny/report.json")).is_object());
    // The other files that the README names.
    for name in [
        "configs/smollm2-135m.toml",
        "configs/tasks/paper.toml",
        "scripts/get-smollm2.sh",
        "docs/INSTALL.md",
        "data/README.md",
    ] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    for name in ["share/man/man1/spag-run.1", "share/bash-completion/completions/spag-play"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
}

#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let index = fs::read_to_string(docs.join("README.md")).unwrap();
    let pages = fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: Vec<String> = pages.filter(|name| name.ends_with(".md") && name != "README.md").collect();
    assert!(pages.len() > 15);
    for page in pages {
        assert!(index.contains(&format!("]({page})")), "{page} is not in docs/README.md");
    }
}
