//! Games and the whole loop on a device.

use std::fs;
use std::path::Path;
use std::process::Command;

use spag_tests::{play_command, program, run};

use crate::model::small_model;

/// Short games of the model with itself in the folder `dir`.
fn games(dir: &Path, model: &Path, more: &str) -> Command {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("words.txt"), "apple\nriver\nwindow\n").unwrap();
    let mut command = play_command(dir, model, model);
    command.args(["--taboo_max_turns", "2"]).args(more.split_whitespace());
    command
}

/// The utterances of the games in `dir`.
fn played(dir: &Path) -> Vec<String> {
    let mut records: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter(|path| !path.to_string_lossy().contains("summary"))
        .collect();
    records.sort();
    records.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_greedy_games_are_those_of_the_cpu() {
    let work = tempfile::tempdir().unwrap();
    let model = small_model(work.path());
    let play = |name: &str, more: &str| {
        let dir = work.path().join(name);
        run(&mut games(&dir, &model, more), 0);
        played(&dir.join("out"))
    };
    let cpu = play("cpu", "--device cpu --task_type testing");
    let cuda = play("cuda", "--device cuda --task_type testing --dtype f32");
    assert!(!cpu.is_empty() && cpu == cuda, "{cpu:?}\n{cuda:?}");
    // Sampling in bf16 only runs to its end.
    let sampled = play("sampled", "--device cuda --task_type sampling --temperature 1 --top_k 20 --dtype bf16");
    assert_eq!(sampled.len(), cpu.len());
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_decoding_is_captured_in_graphs() {
    let work = tempfile::tempdir().unwrap();
    let model = small_model(work.path());
    let mut command = program("spag");
    command.args(
        "bench generate --device cuda --prompt 30 --new_tokens 6 --batch 1,3 --rounds 1 --model".split_whitespace(),
    );
    let (results, notes) = run(command.arg(&model), 0);
    assert!(results.contains(r#""device":"cuda:0 (stand-in)""#), "{results}");
    assert!(!notes.contains("without CUDA graphs"), "{notes}");
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_the_loop_runs_on_a_device() {
    let work = tempfile::tempdir().unwrap();
    let model = small_model(work.path());
    let mut command = program("spag");
    command.args(["run", "configs/tiny.toml"]);
    let folders = [format!("base_model={}", model.display()), format!("run_dir={}", work.path().join("run").display())];
    let settings = "device=cuda epochs=1 max_turns=2 imitation.games=12 self_play.games=8 self_play.max_new_tokens=4 \
        evaluation.games=4 evaluation.self_play_games=4 evaluation.sample_games=1 benchmarks.limit=4";
    for setting in settings.split_whitespace().map(str::to_owned).chain(folders) {
        command.args(["--set", &setting]);
    }
    run(&mut command, 0);
    let report = fs::read_to_string(work.path().join("run/report.txt")).unwrap();
    assert!(report.contains("SPAG-1"), "{report}");
    // What is there is not done again.
    let (_, notes) = run(&mut command, 0);
    assert!(!notes.contains("games/s"), "{notes}");
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_too_little_memory_is_an_error_that_says_what_to_change() {
    let work = tempfile::tempdir().unwrap();
    let model = small_model(work.path());
    let mut command = games(&work.path().join("games"), &model, "--device cuda");
    let (_, said) = run(command.env("STAND_IN_MEMORY", (34 << 20).to_string()), 2);
    assert!(said.contains("too little memory") && said.contains("--kv_cache_gib"), "{said}");
}
