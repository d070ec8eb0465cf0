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
