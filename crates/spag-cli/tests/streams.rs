//! Closed output streams, and what is written to which stream.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use spag_tests::{fixture, program, run};

/// Runs with a standard output that is closed before anything is written.
fn without_reader(command: &mut Command) -> (Option<i32>, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (child.wait().unwrap().code(), err)
}

#[test]
fn closed_stdout_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program("spag-assign-rewards");
    command.arg("--input_data_path").arg(fixture("judge_cases.jsonl"));
    command.current_dir(folder.path()).args(["--output_data_path", "out.json"]);
    assert_eq!(without_reader(&mut command), (Some(0), String::new()));
    assert!(folder.path().join("out.json").is_file());
    for name in ["spag", "spag-train", "spag-play", "spag-assign-rewards"] {
        let (code, err) = without_reader(program(name).arg("--help"));
        assert!(code == Some(0) && err.is_empty(), "{name}: {code:?} {err}");
    }
}

#[test]
fn help_is_written_to_stdout_and_errors_to_stderr() {
    for name in ["spag", "spag-train", "spag-play", "spag-assign-rewards"] {
        let (out, err) = run(program(name).arg("--help"), 0);
        assert!(out.contains("Usage:") && err.is_empty(), "{name}: {err}");
        let (out, err) = run(program(name).arg("--frobnicate"), 2);
        assert!(out.is_empty() && err.starts_with("error: "), "{name}: {out} {err}");
        let (out, _) = run(program(name).arg("--version"), 0);
        assert!(out.starts_with(name), "{out}");
    }
}

#[test]
fn help_is_grouped() {
    for (name, headings) in [
        ("spag-train", vec!["Model and data:", "Loss:", "Steps:", "Optimizer (AdamW):", "Output:"]),
        ("spag-play", vec!["Players:", "Tokens:", "Games:", "Output:"]),
        ("spag-assign-rewards", vec!["Files:", "Credit:", "Wording:"]),
    ] {
        let (out, _) = run(program(name).arg("--help"), 0);
        for heading in headings {
            assert!(out.contains(heading), "{name}: {heading}");
        }
    }
}
