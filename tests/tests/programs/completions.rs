//! Completions of shells and man pages of every program.

use std::fs;
use std::process::{Command, Stdio};

use spag_tests::{program, run};

/// Each program with a flag of its own.
const PROGRAMS: [(&str, &str); 4] = [
    ("spag", "--watch"),
    ("spag-play", "--attacker_adapter"),
    ("spag-train", "--lora_r"),
    ("spag-assign-rewards", "--decay_weight"),
];

#[test]
fn every_program_prints_completions_that_its_shell_can_read() {
    for (name, flag) in PROGRAMS {
        let (script, _) = run(program(name).args(["--completions", "bash"]), 0);
        assert!(script.contains(flag), "{name}: {script}");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &script).unwrap();
        assert!(Command::new("bash").arg("-n").arg(file.path()).stderr(Stdio::inherit()).status().unwrap().success());
        let (_, said) = run(program(name).args(["--completions", "cmd"]), 2);
        assert!(said.contains("fish"), "{said}");
    }
    let (of_flag, _) = run(program("spag").args(["--completions", "zsh"]), 0);
    let (of_command, _) = run(program("spag").args(["completions", "zsh"]), 0);
    assert!(of_flag.trim() == of_command.trim() && of_flag.starts_with("#compdef spag"), "{of_flag}");
}

#[test]
fn every_program_and_subcommand_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flag) in PROGRAMS {
        let pages = folder.path().join(name);
        let (written, _) = run(program(name).arg("--man_pages").arg(&pages), 0);
        let page = if name == "spag" { "spag-run.1".to_owned() } else { format!("{name}.1") };
        let text = fs::read_to_string(pages.join(&page)).unwrap();
        assert!(written.contains(&page) && text.contains(".TH") && text.contains(&flag.replace('-', "\\-")), "{text}");
    }
    let pages = fs::read_dir(folder.path().join("spag")).unwrap().count();
    assert!(pages > 20, "{pages} pages");
    assert!(folder.path().join("spag/spag-bench-generate.1").exists());
    assert!(!folder.path().join("spag/spag-launch-rank.1").exists());
}
