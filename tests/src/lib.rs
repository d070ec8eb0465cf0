//! What the tests that start the real programs share.

mod ranks;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub use ranks::{Ended, Ranks};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file or folder of `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures").join(name)
}

/// Builds the programs once, in the profile of the tests, and returns their folder.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // With the tests, which are there already: they decide the features of what is shared, so nothing heavy is
        // compiled a second time.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--bins", "--tests"]).current_dir(root());
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        // What cargo tells this test of its own package would be news to some build scripts (ring's): each build from
        // here would compile their crates again, and each from a shell once more.
        let of_this_package = |name: &str| {
            let stems = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
            stems.iter().any(|stem| name.starts_with(stem)) || name == "CARGO_PRIMARY_PACKAGE"
        };
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this_package)).for_each(|(name, _)| {
            build.env_remove(name);
        });
        let status = build.status().unwrap_or_else(|e| panic!("cargo does not start: {e}"));
        assert!(status.success(), "the programs do not build");
        // A test lies in target/PROFILE/deps.
        let test = std::env::current_exe().unwrap_or_else(|e| panic!("no path of this test: {e}"));
        test.ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
    })
}

/// A program of the repository, ready to be given arguments. Launcher variables of the environment are cleared.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(programs().join(name));
    command.current_dir(root());
    for variable in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a program to its end; fails the test with everything it printed unless it exits with `code`.
pub fn run(command: &mut Command, code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned());
    assert_eq!(status.code(), Some(code), "{command:?}\nstdout:\n{out}\nstderr:\n{err}");
    assert!(!err.contains("panicked"), "{command:?} panicked:\n{err}");
    (out, err)
}
