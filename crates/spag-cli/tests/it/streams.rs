//! Closed output streams, and what is written to which stream.

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
};

use spag_tests::{fixture, program, root, run};

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
        ("spag-train", vec!["Model and data:", "Loss:", "Steps:", "Optimizer:", "Output:"]),
        ("spag-play", vec!["Players:", "Tokens:", "Games:", "Output:"]),
        ("spag-assign-rewards", vec!["Files:", "Credit:", "Prompts:"]),
    ] {
        let (out, _) = run(program(name).arg("--help"), 0);
        for heading in headings {
            assert!(out.contains(heading), "{name}: {heading}");
        }
    }
}

/// Runs `spag` with redirections of bash.
fn redirected(arguments: &str, redirections: &str) -> (Option<i32>, String) {
    let real = program("spag");
    let mut command = Command::new("bash");
    command.current_dir(root()).args(["-c", &format!("\"$0\" {arguments} {redirections}")]).arg(real.get_program());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const PLAN: &str = "plan configs/llama2-7b/config.json";

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for arguments in ["--help", "--version", "plan --help", PLAN, "show tests/fixtures/judge_cases.jsonl"] {
        let (code, err) = redirected(arguments, "> /dev/full");
        assert!(
            code == Some(1) && err.starts_with("error: standard output: No space left"),
            "{arguments}: {code:?} {err}"
        );
    }
    let (code, _) = redirected("plan no-such.json", "> /dev/full 2> /dev/full");
    assert_eq!(code, Some(2));
}

#[test]
fn closed_streams_do_not_change_the_exit_code() {
    for (arguments, expected) in [("--help", 0), (PLAN, 0), ("plan no-such.json", 2), ("--no-such-flag", 2)] {
        for redirections in [">&-", "2>&-", "<&-", ">&- 2>&- <&-", "| true; exit ${PIPESTATUS[0]}"] {
            let (code, err) = redirected(arguments, redirections);
            assert_eq!(code, Some(expected), "{arguments} {redirections}: {err}");
            assert!(!err.contains("fault in this program"), "{err}");
        }
    }
}

#[test]
fn show_ends_quietly_with_its_reader_but_reports_a_bad_row() {
    let folder = tempfile::tempdir().unwrap();
    let games = fixture("judge_cases.jsonl");
    let (code, err) = without_reader(program("spag").arg("show").arg(&games));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let bad = folder.path().join("bad.jsonl");
    fs::write(&bad, "{\"target_word\": 3}\n").unwrap();
    let (code, err) = without_reader(program("spag").arg("show").arg(&bad));
    assert!(code == Some(2) && err.contains("bad.jsonl: row 1"), "{code:?} {err}");
}
