//! A small `spag run configs/tiny.toml`: one epoch and few games, uninterrupted, killed repeatedly, and on two ranks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use candle_core::{Device, Tensor};
use spag_tests::{Running, program, run, run_tiny};

/// A small run of the loop in `dir`.
fn small_run(dir: &Path) -> Command {
    run_tiny(dir, &["imitation.games=160", "self_play.games=120", "evaluation.games=40"])
}

/// The files below `dir` that must not depend on interruptions, with their contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name == "episodes.jsonl"
                || name == "samples.jsonl"
                || name == "model.safetensors"
                || (name.ends_with(".jsonl") && folder.ends_with("eval"))
            {
                files.insert(path.strip_prefix(dir).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn killed_run_ends_with_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, broken) = (folder.path().join("whole"), folder.path().join("broken"));

    let started = std::time::Instant::now();
    let (out, _) = run(&mut small_run(&whole), 0);
    let mut took = started.elapsed();
    for words in ["IM", "SPAG-1", "%"] {
        assert!(out.contains(words), "the final table has {words}:\n{out}");
    }
    for file in [
        "config.resolved.toml",
        "im/episodes.jsonl",
        "im/samples.jsonl",
        "im/metrics.jsonl",
        "im/model/model.safetensors",
        "spag-1/episodes.jsonl",
        "spag-1/samples.jsonl",
        "spag-1/metrics.jsonl",
        "spag-1/model/model.safetensors",
        "report.json",
        "report.txt",
        "report.html",
    ] {
        assert!(whole.join(file).is_file(), "{file}");
    }

    // Both programs count turns in the same way.
    let games = spag_game::read_games(whole.join("eval/im-vs-im.jsonl"), &spag_game::Taboo::default()).unwrap();
    let mut stats = spag_selfplay::GameStats::new(&spag_game::taboo::LABELS);
    games.iter().for_each(|(game, verdict)| stats.add(game, verdict));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(whole.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["baseline"]["mean_turns"].as_f64(), stats.counts().mean_turns());

    // Killed at moments spread over the run, each time a little later. If other work slowed the whole run down, this one may end
    // before the third kill: then earlier moments.
    let kill = |delay: Duration| Running::start_quietly(&mut small_run(&broken)).kill_after(delay).is_none();
    while !(1..=5).all(|attempt| kill(took.mul_f64(0.02 + 0.045 * f64::from(attempt))) || attempt > 3) {
        std::fs::remove_dir_all(&broken).unwrap();
        took /= 2;
    }
    run(&mut small_run(&broken), 0);

    let (want, got) = (contents(&whole), contents(&broken));
    assert_eq!(want.keys().collect::<Vec<_>>(), got.keys().collect::<Vec<_>>());
    assert!(want.len() >= 6, "{:?}", want.keys());
    for (path, bytes) in &want {
        assert!(got[path] == *bytes, "{} differs between a run and one that was killed", path.display());
    }

    // A finished run is not repeated, and other settings are refused in its folder.
    let before = std::fs::metadata(whole.join("im/model/model.safetensors")).unwrap().modified().unwrap();
    run(&mut small_run(&whole), 0);
    let after = std::fs::metadata(whole.join("im/model/model.safetensors")).unwrap().modified().unwrap();
    assert_eq!(before, after);
    let (_, err) = run(small_run(&whole).args(["--set", "seed=5"]), 2);
    assert!(err.contains("seed"), "{err}");
}

#[test]
fn killed_run_that_imitates_its_own_games_ends_with_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, broken) = (folder.path().join("whole"), folder.path().join("broken"));
    let own_games = |dir: &Path| {
        run_tiny(
            dir,
            &[
                "imitation.source=self",
                "imitation.games=340",
                "imitation.top_k=0",
                "imitation.max_new_tokens=24",
                "self_play.games=24",
                "evaluation.games=4",
            ],
        )
    };
    let started = std::time::Instant::now();
    let (_, err) = run(&mut own_games(&whole), 0);
    let took = started.elapsed();
    assert!(err.contains("accepted ") && err.contains("of 340 games"), "{err}");
    let report = std::fs::read_to_string(whole.join("report.txt")).unwrap();
    assert!(report.contains("Sources of the imitation") && report.contains("self"), "{report}");
    // If the machine is slow for a moment, a kill may come later in the run, or after it.
    for part in [0.1, 0.2, 0.3] {
        Running::start_quietly(&mut own_games(&broken)).kill_after(took.mul_f64(part));
    }
    run(&mut own_games(&broken), 0);
    let (want, got) = (contents(&whole), contents(&broken));
    assert_eq!(want.keys().collect::<Vec<_>>(), got.keys().collect::<Vec<_>>());
    assert!(want.iter().all(|(path, bytes)| got[path] == *bytes), "files differ");
}

/// The loop on `ranks` ranks with a global batch of two micro-batches.
fn on_ranks(dir: &Path, ranks: usize) -> Command {
    let small = small_run(dir);
    let steps = 2 / ranks;
    let mut command = program("spag");
    command.args(["launch", "--nproc_per_node", &ranks.to_string(), "--", "spag"]).args(small.get_args());
    for section in ["train", "imitation.train"] {
        command.args(["--set", &format!("{section}.gradient_accumulation_steps={steps}")]);
    }
    command
}

#[test]
fn two_ranks_train_like_one_with_the_same_global_batch() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    run(&mut on_ranks(&one, 1), 0);
    let (out, err) = run(&mut on_ranks(&two, 2), 0);
    assert!(out.contains("[rank 0] ") && out.contains("SPAG-1"), "{out}{err}");
    let (alone, together) = (contents(&one), contents(&two));
    // The same files, since those of the ranks are merged.
    assert_eq!(alone.keys().collect::<Vec<_>>(), together.keys().collect::<Vec<_>>());
    let same = |file: &str| assert!(alone[Path::new(file)] == together[Path::new(file)], "{file} differs");
    same("im/episodes.jsonl");
    same("im/samples.jsonl");
    // Gradients are summed in another order, which changes few elements by more than 1e-5.
    let weights = |dir: &Path| {
        let tensors = candle_core::safetensors::load(dir.join("im/model/model.safetensors"), &Device::Cpu).unwrap();
        let mut all: Vec<_> = tensors.into_iter().collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        let flat = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        all.iter().flat_map(|(_, tensor)| flat(tensor)).collect::<Vec<f32>>()
    };
    let (a, b) = (weights(&one), weights(&two));
    let apart = a.iter().zip(&b).filter(|(a, b)| (*a - *b).abs() > 1e-5).count();
    assert!(a.len() == b.len() && apart * 10_000 < a.len(), "{apart} of {} elements", a.len());
    let steps = |dir: &Path| std::fs::read_to_string(dir.join("im/metrics.jsonl")).unwrap().lines().count();
    assert_eq!(steps(&one), steps(&two));
    // A finished run is not repeated with any number of ranks.
    let before = std::fs::metadata(two.join("spag-1/model/model.safetensors")).unwrap().modified().unwrap();
    run(&mut on_ranks(&two, 2), 0);
    assert_eq!(std::fs::metadata(two.join("spag-1/model/model.safetensors")).unwrap().modified().unwrap(), before);
    // It gets its control arms later, on all ranks, and once.
    let with_controls = || run(on_ranks(&two, 2).arg("--controls"), 0);
    let (out, err) = with_controls();
    assert!(out.contains("Over all rows SPAG-1 is"), "{out}{err}");
    let made = |path: &str| std::fs::metadata(two.join(path)).unwrap().modified().unwrap();
    let arms = ["random-winner", "general-text"].map(|arm| format!("controls/{arm}/spag-1/model/model.safetensors"));
    let before = [&arms[0], &arms[1], "spag-1/model/model.safetensors"].map(made);
    with_controls();
    assert_eq!([&arms[0], &arms[1], "spag-1/model/model.safetensors"].map(made), before);
}
