//! Programs that need threads end with one line and exit code 1 if the system has none.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use spag_tests::{fixture, program, root};

/// A user without processes: limits of processes count those of a user, and do not hold for root.
const USER: &str = "61234";

/// `spag-…` under a limit of one process, which leaves no thread but the first.
fn alone(name: &str, dir: &Path, arguments: &[&str]) -> Command {
    let real = program(name);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--clear-groups", "bash", "-c", "ulimit -u 1; exec \"$@\"", "alone"]);
    command.arg(real.get_program()).args(arguments).current_dir(dir);
    real.get_envs().filter(|(_, value)| value.is_none()).for_each(|(variable, _)| {
        command.env_remove(variable);
    });
    command
}

/// Whether this test may become another user, for whom the programs are readable.
fn can_change_user(dir: &Path) -> bool {
    let output = alone("spag", dir, &["--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn programs_without_threads_end_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    if !can_change_user(dir) {
        eprintln!("SKIPPED: this user cannot start the programs as user {USER}");
        return;
    }
    fs::write(dir.join("words.txt"), "horse\n").unwrap();
    fs::write(dir.join("in.jsonl"), "{\"prompt\": \"a\"}\n").unwrap();
    let path = |path: std::path::PathBuf| path.display().to_string();
    let model = path(fixture("tiny-llama"));
    let (base, tiny) = (path(root().join("configs/tiny-base.toml")), path(root().join("configs/tiny.toml")));
    let (games, samples) = (path(fixture("judge_cases.jsonl")), path(fixture("training/train_items.json")));
    let (config, words) = (path(fixture("tiny-llama/config.json")), "words.txt");
    let (first, second) = (format!("a={model}"), "b=openai:http://127.0.0.1:9/v1#m");
    let players = ["--attacker_model_name_or_path", &model, "--defender_model_name_or_path", &model];
    let play = [&players[..], &["--data_path", words, "--output_dir", "played"]].concat();
    let train = ["--model_name_or_path", &model, "--train_data_path", &samples, "--output_dir", "trained"];
    let assign = ["--input_data_path", &games, "--output_data_path", "out.jsonl", "--threads", "3"];
    for (name, arguments) in [
        ("spag-play", &play[..]),
        ("spag-train", &train),
        ("spag-assign-rewards", &assign),
        ("spag", &["run", &tiny, "--set", "run_dir=run"]),
        ("spag", &["make-base", &base, "--set", "output_dir=base"]),
        ("spag", &["arena", "--words", words, "--players", &first, second]),
        ("spag", &["generate", "--model", &model, "--input", "in.jsonl", "--output", "out.jsonl"]),
        ("spag", &["eval", "--model", &model, "--tasks", "tiny", "--output_dir", "out"]),
        ("spag", &["bench", "train", "--model_name_or_path", &model]),
        ("spag", &["bench", "play", "--model", &model]),
        ("spag", &["init-model", "--config", &config, "--output_dir", "model"]),
    ] {
        let output = alone(name, dir, arguments).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name} {arguments:?}: {err}");
        let errors: Vec<&str> = err.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert!(errors.len() == 1 && errors[0].starts_with("error: "), "{name} {arguments:?}: {err}");
        assert!(errors[0].contains("threads") && errors[0].contains("ulimit -u"), "{name} {arguments:?}: {err}");
    }
    // These need no more than one thread.
    for (name, arguments) in [
        ("spag", &["show", &games][..]),
        ("spag", &["plan", &path(root().join("configs/llama2-7b/config.json"))]),
        ("spag", &["data", "imitation", "--input_data_path", &games, "--output_data_path", "imitation.jsonl"]),
        ("spag-assign-rewards", &["--input_data_path", &games, "--output_data_path", "one.jsonl", "--threads", "1"]),
    ] {
        let output = alone(name, dir, arguments).output().unwrap();
        assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
