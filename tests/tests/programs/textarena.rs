//! `spag-play --game textarena:ID`, with a script in the place of Python: play, resume, faults, and programs that read the games.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use spag_tests::{Answer, Server, json, json_lines, program, root, run};

/// The script as an interpreter in a folder. It adds a line to the file `starts` for each of its processes.
fn interpreter(folder: &Path) -> String {
    let path = folder.join("python");
    fs::copy(root().join("crates/spag-selfplay/tests/fixtures/fake_python.sh"), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn play(folder: &Path, server: &Server, python: &str) -> Command {
    let player = format!("openai-completions:{}#m", server.base_url());
    let mut command = program("spag-play");
    command.args(["--attacker_model_name_or_path", &player, "--defender_model_name_or_path", &player]);
    command.args(["--game", "textarena:Plays", "--games_per_word", "3", "--python", python, "--output_dir"]);
    command.arg(folder.join("out"));
    command
}

/// The file in `out` whose name has this end.
fn output(folder: &Path, end: &str) -> std::path::PathBuf {
    let mut files = fs::read_dir(folder.join("out")).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_str().unwrap().ends_with(end)).unwrap_or_else(|| panic!("no file {end}"))
}

#[test]
fn games_of_processes_are_played_recorded_and_credited() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path();
    let server = Server::start(|_| Answer::says("hello"));
    // Without an interpreter all games fail, and the same command plays them later.
    let (_, err) = run(&mut play(folder, &server, "/nothing/python"), 1);
    assert!(err.contains("3 of 3 games failed") && err.contains("/nothing/python"), "{err}");
    let failed = json_lines(output(folder, "_failed.jsonl"));
    assert_eq!(failed.len(), 3);
    let python = interpreter(folder);
    run(&mut play(folder, &server, &python), 0);
    let starts = || fs::read_to_string(folder.join("starts")).unwrap().lines().count();
    let started = starts();
    assert!((1..=3).contains(&started), "{started}");
    run(&mut play(folder, &server, &python), 0);
    assert_eq!(starts(), started, "no game was missing");
    let results = output(folder, "_results.json");
    let games = json(&results);
    for game in games.as_array().unwrap() {
        assert_eq!((&game["game_name"], &game["transcript"]["ending"]), (&"textarena:Plays".into(), &"won".into()));
        assert_eq!(game["history"].as_array().unwrap().len(), 2);
    }
    assert_eq!(json(output(folder, "_summary.json"))["games"], 3);
    // From here on, no process is started.
    let (shown, _) = run(program("spag").arg("show").arg(&results), 0);
    assert!(shown.contains("hello"), "{shown}");
    let samples = folder.join("samples.json");
    let mut credit = program("spag-assign-rewards");
    run(credit.arg("--input_data_path").arg(&results).arg("--output_data_path").arg(&samples), 0);
    let prompts: Vec<String> = server.received().iter().map(|request| request.prompt().to_owned()).collect();
    let samples = json(&samples);
    assert_eq!(samples.as_array().unwrap().len(), 3, "{samples}");
    assert!(
        samples.as_array().unwrap().iter().all(|sample| prompts.contains(&sample["query"].as_str().unwrap().into()))
    );
    assert_eq!(starts(), started);
}
