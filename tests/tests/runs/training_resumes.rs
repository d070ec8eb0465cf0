//! `spag-train`, killed at random moments and resumed, ends with the same files as an uninterrupted run. Disk errors are
//! reported and lose no checkpoint.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spag_tests::{Running, fixture, json_lines, run, train_command, wait_until};
use spag_train::{SavedRun, checkpoint_folders, latest_checkpoint};

/// Settings under which everything that a checkpoint saves changes during the run.
const POLICY: &str = "--train_method OfflinePO --lm_kl_coeff 0.2 --lm_sft_coeff 0.5 --num_train_epochs 4 \
    --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --learning_rate 1e-3 --lr_scheduler_type cosine \
    --warmup_ratio 0.1 --weight_decay 0.01 --max_length 256 --seed 3 --logging_steps 3 --save_strategy steps \
    --save_steps 2 --save_total_limit 2";

const IMITATION: &str = "--train_method SFTwithKL --lm_kl_coeff 0.1 --num_train_epochs 4 --bf16 True \
    --per_device_train_batch_size 4 --gradient_checkpointing True --learning_rate 1e-3 --max_length 256 \
    --logging_steps 5 --save_strategy epoch";

fn train(settings: &str, output: &Path) -> Command {
    let mut command = train_command(output);
    command.env("RAYON_NUM_THREADS", "2").arg("--eval_data_path").arg(fixture("training/train_items.json"));
    command.args(settings.split_whitespace());
    command
}

fn resumed(settings: &str, output: &Path) -> Command {
    let mut command = train(settings, output);
    command.args(["--resume_from_checkpoint", "latest"]);
    command
}

/// The lines of metrics, without times and memory.
fn metrics(output: &Path) -> Vec<Value> {
    let lines = json_lines(output.join("metrics.jsonl")).into_iter().map(|mut line| {
        for key in ["tokens_per_second", "model_tflops", "peak_memory_gib", "eval_runtime"] {
            line.as_object_mut().unwrap().remove(key);
        }
        line
    });
    lines.collect()
}

/// Every file of the finished run that must have the same bytes.
fn results(output: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vec![output.join("model.safetensors")];
    for (_, folder) in checkpoint_folders(output).unwrap() {
        files.push(folder.join("model.safetensors"));
        files.extend(["exp_avg", "exp_avg_sq"].map(|stem| folder.join(format!("trainer_state/{stem}.safetensors"))));
        files.push(folder.join("trainer_state/state.json"));
    }
    files.into_iter().map(|file| (file.strip_prefix(output).unwrap().to_owned(), fs::read(&file).unwrap())).collect()
}

fn assert_same_end(got: &Path, want: &Path) {
    let (got_files, want_files) = (results(got), results(want));
    assert_eq!(got_files.len(), want_files.len());
    for ((name, got), (of, want)) in got_files.iter().zip(&want_files) {
        assert_eq!(name, of);
        assert!(got == want, "{} differs", name.display());
    }
    assert_eq!(metrics(got), metrics(want));
}

/// Kills the run of `settings` with SIGKILL at `kills` random moments, resumes it each time, and compares the result with
/// that of an uninterrupted run.
fn survives(settings: &str, kills: usize, limit: Option<usize>) {
    let work = tempfile::tempdir().unwrap();
    let whole = work.path().join("whole");
    let started = Instant::now();
    run(&mut train(settings, &whole), 0);
    let took = started.elapsed();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut killed, mut round) = (0, 0);
    while killed < kills {
        let output = work.path().join(format!("killed-{round}"));
        loop {
            // Any moment from the first instruction to well into the run.
            let delay = took.mul_f64(rng.random_range(0.0..0.4));
            if let Some(status) = Running::start_quietly(&mut resumed(settings, &output)).kill_after(delay) {
                assert!(status.success(), "it failed before it was killed");
                break;
            }
            killed += 1;
            let there = if output.exists() { checkpoint_folders(&output).unwrap() } else { Vec::new() };
            assert!(limit.is_none_or(|limit| there.len() <= limit + 1), "{there:?}");
            for (step, folder) in there {
                let saved = SavedRun::open(&folder).unwrap_or_else(|e| panic!("after kill {killed}: {e}"));
                assert_eq!(saved.state().position.step, step);
                spag_model::Checkpoint::load(saved.dir()).unwrap();
            }
            if killed == kills {
                run(&mut resumed(settings, &output), 0);
                break;
            }
        }
        assert_same_end(&output, &whole);
        round += 1;
    }
}

#[test]
fn killed_ten_times_gives_the_same_bits() {
    survives(POLICY, 10, Some(2));
}

#[test]
fn killed_with_bf16_and_recomputation_gives_the_same_bits() {
    survives(IMITATION, 6, None);
}

#[test]
fn damaged_checkpoint_is_named_and_not_overwritten() {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("out");
    run(&mut train(POLICY, &output), 0);
    let [.., (_, older), (_, last)] = &checkpoint_folders(&output).unwrap()[..] else { panic!("two checkpoints") };
    let whole = results(&output);
    let refused = |file: &str, contents: &[u8], words: &[&str]| {
        let path = last.join(file);
        let before = fs::read(&path).unwrap();
        fs::write(&path, contents).unwrap();
        let (_, err) = run(&mut resumed(POLICY, &output), 2);
        for word in words.iter().chain([&"checkpoint-"]) {
            assert!(err.contains(word), "{word} in {err}");
        }
        assert_eq!(fs::read(&path).unwrap(), contents, "the damaged file is left as it is");
        fs::write(&path, before).unwrap();
        assert!(results(&output) == whole, "everything else is left as it was");
    };
    let moments = fs::read(last.join("trainer_state/exp_avg.safetensors")).unwrap();
    refused("trainer_state/exp_avg.safetensors", &moments[..moments.len() / 2], &["exp_avg", "bytes"]);
    let mut weights = fs::read(last.join("model.safetensors")).unwrap();
    *weights.last_mut().unwrap() ^= 1;
    refused("model.safetensors", &weights, &["model.safetensors", "CRC"]);
    refused("trainer_state/state.json", b"{\"format\": 1,", &["state.json"]);
    refused("trainer_state/state.json", b"{\"format\": 99}", &["state.json"]);
    // The one before it is intact and gives the same result.
    let mut command = train(POLICY, &output);
    command.arg("--resume_from_checkpoint").arg(older);
    run(&mut command, 0);
    assert!(results(&output) == whole);
}

#[test]
fn resume_with_other_settings_is_refused() {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("out");
    let settings = format!("{POLICY} --max_steps 4");
    run(&mut train(&settings, &output), 0);
    for (change, words) in [
        ("--learning_rate 2e-3", vec!["--learning_rate was 0.001 and is 0.002"]),
        ("--seed 4 --lm_kl_coeff 0.1", vec!["--seed was 3 and is 4", "--lm_kl_coeff was 0.2 and is 0.1"]),
        ("--max_length 64", vec!["--max_length", "training data"]),
    ] {
        // A flag given twice is an error: remove the first.
        let mut words_of: Vec<&str> = settings.split_whitespace().collect();
        for name in change.split_whitespace().filter(|word| word.starts_with("--")) {
            let at = words_of.iter().position(|word| *word == name).unwrap();
            words_of.drain(at..at + 2);
        }
        let (_, err) = run(&mut resumed(&format!("{} {change}", words_of.join(" ")), &output), 2);
        for word in words {
            assert!(err.contains(word), "{word} in {err}");
        }
    }
    // Settings that change no result may change.
    let changed = settings.replace("--logging_steps 3", "--logging_steps 1 --gradient_checkpointing True");
    run(&mut resumed(&changed, &output), 0);
    // A folder with checkpoints is overwritten only with the flag.
    let (_, err) = run(&mut train(&settings, &output), 2);
    assert!(err.contains("--resume_from_checkpoint latest") && err.contains("--overwrite_output_dir"), "{err}");
    run(train(&settings, &output).args(["--overwrite_output_dir", "True"]), 0);
    let (_, err) = run(train(&settings, &output).arg("--resume_from_checkpoint").arg(&output), 2);
    assert!(err.contains("trainer_state/state.json"), "{err}");
}

/// A file-size limit simulates a full disk: the write fails in the middle of a file.
#[cfg(unix)]
#[test]
fn full_disk_is_an_error_and_keeps_checkpoints() {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("out");
    let settings = format!("{POLICY} --max_steps 4");
    let whole = work.path().join("whole");
    run(&mut train(&settings, &whole), 0);
    // A limit that the optimizer state exceeds.
    let limited = |command: &Command, kib: u32| {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"")).arg("bash");
        shell.arg(command.get_program()).args(command.get_args()).env("RAYON_NUM_THREADS", "2");
        shell.current_dir(command.get_current_dir().unwrap());
        shell
    };
    let (_, err) = run(&mut limited(&train(&settings, &output), 500), 1);
    assert!(err.contains("safetensors") && err.contains("error:"), "{err}");
    assert_eq!(latest_checkpoint(&output).unwrap(), None);
    let names = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let leftovers: Vec<String> = names.filter(|name| name.ends_with(".tmp")).collect();
    assert!(leftovers.is_empty(), "no temporary folder is left: {leftovers:?}");
    run(&mut resumed(&settings, &output), 0);
    assert_same_end(&output, &whole);
}

#[test]
fn second_run_in_the_same_output_folder_is_refused() {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("out");
    let mut first = Running::start_quietly(&mut train(POLICY, &output));
    wait_until("the first run writes", Duration::from_secs(300), || output.join("metrics.jsonl").exists());
    let (_, err) = run(&mut train(POLICY, &output), 1);
    assert!(err.contains("another run is writing here"), "{err}");
    assert!(first.wait().unwrap().success());
}
