//! Training by the scheduler of a DeepSpeed file, with the program.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spag_tests::{copy_folder, fixture, json, json_lines, program, root, run, train_command};

const SETTINGS: &str = "--train_method SFTwithKL --lm_kl_coeff 0.1 --per_device_train_batch_size 2 \
    --learning_rate 5e-6 --lr_scheduler_type cosine --warmup_ratio 0.03 --max_length 256 --save_steps 2";

/// `spag-train` with the paper's file.
fn train(output: &Path, steps: &str, more: &[&str]) -> Command {
    let mut command = train_command(output);
    command
        .args(SETTINGS.split(' '))
        .args(["--max_steps", steps])
        .arg("--deepspeed")
        .arg(root().join("configs/default_offload_opt_param.json"));
    command.args(more);
    command
}

fn rates(output: &Path) -> Vec<f64> {
    let lines = json_lines(output.join("metrics.jsonl"));
    lines.iter().map(|line| line["learning_rate"].as_f64().unwrap()).collect()
}

#[test]
fn file_replaces_the_schedule_and_resume_keeps_it() {
    let work = tempfile::tempdir().unwrap();
    let whole = work.path().join("whole");
    let (_, err) = run(&mut train(&whole, "5", &[]), 0);
    assert_eq!(err.matches("WarmupDecayLR, replaces --lr_scheduler_type cosine").count(), 1, "{err}");
    // As transformers logs: after each step the rate of the next one.
    let expected = [0.0, 5e-6, 5e-6, 5e-6 * 2.0 / 3.0, 5e-6 / 3.0];
    for (rate, expected) in rates(&whole).iter().zip(expected) {
        assert!((rate - expected).abs() < 1e-18, "{rate} is not {expected}");
    }
    assert_eq!(json(whole.join("deepspeed_config.json"))["scheduler"]["params"]["total_num_steps"], 5);

    // The last steps again, from the checkpoint before them.
    let parts = work.path().join("parts");
    run(&mut train(&parts, "5", &[]), 0);
    fs::remove_dir_all(parts.join("checkpoint-4")).unwrap();
    fs::remove_file(parts.join("model.safetensors")).unwrap();
    run(&mut train(&parts, "5", &["--resume_from_checkpoint", "latest"]), 0);
    let weights = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert!(weights(&parts) == weights(&whole));
    assert_eq!(rates(&parts), rates(&whole));

    // Another schedule is another run.
    let resumed = ["--resume_from_checkpoint", "latest"];
    let mut without = train_command(&parts);
    let (_, err) = run(without.args(SETTINGS.split(' ')).args(["--max_steps", "5"]).args(resumed), 2);
    assert!(err.contains("the scheduler of the --deepspeed file has changed"), "{err}");
    let (_, err) = run(&mut train(&parts, "5", &[&resumed[..], &["--deepspeed_first_step", "max"]].concat()), 2);
    assert!(err.contains("--deepspeed_first_step"), "{err}");
}

#[test]
fn first_step_at_the_peak_rate_changes_the_weights() {
    let work = tempfile::tempdir().unwrap();
    let [at_min, at_max] = ["min", "max"].map(|rate| {
        let output = work.path().join(rate);
        run(&mut train(&output, "1", &["--deepspeed_first_step", rate]), 0);
        fs::read(output.join("model.safetensors")).unwrap()
    });
    assert!(at_min != at_max);
}

#[test]
fn dropout_is_refused() {
    let work = tempfile::tempdir().unwrap();
    let (model, output) = (work.path().join("model"), work.path().join("out"));
    copy_folder(fixture("tiny-llama"), &model);
    let path = model.join("config.json");
    let mut config = json(&path);
    config["attention_dropout"] = Value::from(0.1);
    fs::write(&path, config.to_string()).unwrap();
    let mut command = program("spag-train");
    command.arg("--model_name_or_path").arg(&model).arg("--output_dir").arg(&output);
    let (_, err) = run(command.arg("--train_data_path").arg(fixture("training/train_items.json")), 2);
    assert!(err.contains("`attention_dropout` is 0.1") && err.contains("config.json"), "{err}");
    assert!(!output.join("model.safetensors").exists());
}
