//! Runs tests in their own process, since a process has one machine.

use std::process::Stdio;

use spag_tests::test_process;

/// Set in the child process of a test.
const CHILD: &str = "SPAG_STAND_IN_CHILD";

/// Runs `program`, the body of the test `test`, in a child process with these variables, and expects success.
pub(crate) fn in_a_process(test: &str, variables: &[(&str, &str)], program: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return program();
    }
    let mut child = test_process(test);
    assert!(child.env(CHILD, "1").envs(variables.iter().copied()).status().unwrap().success());
}

/// Runs `program`, the body of the test `test`, in a child process, and expects it to end with this message.
pub(crate) fn must_end(test: &str, message: &str, program: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return program();
    }
    let ended = test_process(test).env(CHILD, "1").stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(70), "{said}");
    assert!(said.contains(message), "{said}");
}
