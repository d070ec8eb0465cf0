//! The programs of the repository, and others on PATH.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::{fixture, root};

/// Builds the programs once, in the profile of the tests, and returns their folder. If `SPAG_PROGRAMS` names a folder, the
/// programs in it are tested instead.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os("SPAG_PROGRAMS") {
            return root().join(folder);
        }
        // The same targets as `cargo test --workspace`: with the same features, nothing is compiled twice.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--bins", "--tests"]).current_dir(root());
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        // Build scripts (ring's) depend on what cargo sets for this package. They would run again in each build.
        let of_this_package = |name: &str| {
            let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
            prefixes.iter().any(|prefix| name.starts_with(prefix)) || name == "CARGO_PRIMARY_PACKAGE"
        };
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this_package)).for_each(|(name, _)| {
            build.env_remove(name);
        });
        let status = build.status().unwrap_or_else(|e| panic!("cargo does not start: {e}"));
        assert!(status.success(), "the programs do not build");
        // The test is in target/PROFILE/deps.
        let test = std::env::current_exe().unwrap_or_else(|e| panic!("no path of this test: {e}"));
        test.ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
    })
}

/// Variables by which launchers describe ranks and their rendezvous, and the one that names wordings.
const READ_VARIABLES: [&str; 11] = [
    "SPAG_PROMPTS",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "SPAG_TOKEN",
    "SPAG_RESTART_COUNT",
];

/// A program of the repository, started in its root and without the variables that programs read.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(programs().join(name));
    command.current_dir(root());
    for variable in READ_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// `spag-train` of the fixture's model on the fixture's samples.
pub fn train_command(output: &Path) -> Command {
    let mut command = program("spag-train");
    command.arg("--model_name_or_path").arg(fixture("tiny-llama"));
    command.arg("--ref_model_name_or_path").arg(fixture("tiny-llama/ref"));
    command.arg("--train_data_path").arg(fixture("training/train_items.json"));
    command.arg("--output_dir").arg(output);
    command
}

/// `spag-play` in `dir`: short games on the words of `dir/words.txt`, on one thread, with results in `dir/out`.
pub fn play_command(dir: &Path, attacker: impl AsRef<OsStr>, defender: impl AsRef<OsStr>) -> Command {
    let mut command = program("spag-play");
    command.current_dir(dir).env("RAYON_NUM_THREADS", "1");
    command.arg("--attacker_model_name_or_path").arg(attacker).arg("--defender_model_name_or_path").arg(defender);
    command.args(["--data_path", "words.txt", "--output_dir", "out", "--max_new_tokens", "8", "--prompts"]);
    command.arg(root().join("crates/spag-pipeline/tests/fixtures/prompts.json"));
    command
}

/// A program that the tests need and the repository does not have: by the path in the environment variable `variable`, or
/// the first of `names` on PATH. Fails the test if there is none.
pub fn find_program(names: &[&str], variable: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    let found = named.or_else(|| files.find(|file| file.is_file()));
    found.unwrap_or_else(|| panic!("install {} or set {variable} to its path", names.join(" or ")))
}

/// Runs a program to its end and returns stdout and stderr. Fails the test unless it exits with `code`.
pub fn run(command: &mut Command, code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned());
    assert_eq!(status.code(), Some(code), "{command:?}\nstdout:\n{out}\nstderr:\n{err}");
    assert!(!err.contains("panicked"), "{command:?} panicked:\n{err}");
    (out, err)
}

/// `spag run configs/tiny.toml` with one epoch, few games of the last model against itself and few rows of the benchmarks, in the
/// run folder `dir`, and further settings (`key=value`).
pub fn run_tiny(dir: &Path, settings: &[&str]) -> Command {
    let mut command = program("spag");
    command.args(["run", "configs/tiny.toml", "--set", &format!("run_dir={}", dir.display())]);
    for setting in ["epochs=1", "evaluation.self_play_games=20", "benchmarks.limit=40"].iter().chain(settings) {
        command.args(["--set", setting]);
    }
    command
}
