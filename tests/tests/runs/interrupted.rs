//! A run that Ctrl-C ends.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use spag_tests::{Running, run_tiny, wait_until};

/// The number of SIGINT.
const INTERRUPT: i32 = 2;

#[test]
fn interrupted_run_says_that_the_same_command_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let mut command = run_tiny(&dir, &["imitation.games=2400"]);
    let mut run = Running::start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    wait_until("the run begins", Duration::from_secs(300), || dir.join("config.resolved.toml").exists());
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let mut said = String::new();
    run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().signal(), Some(INTERRUPT), "{said}");
    assert!(said.contains("interrupted; the same command goes on from here"), "{said}");
}
