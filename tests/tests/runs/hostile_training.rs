//! `spag-train` and `spag-assign-rewards` on damaged and hostile inputs, settings and folders: a named error with its exit
//! code, and nothing that was there is lost.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use spag_tests::{
    Running, change_tensor, copy_folder, fixture, json as read_json, program, run, train_command, wait_until,
};
use spag_train::checkpoint_folders;

const SHORT: &str = "--train_method OfflinePO --lm_kl_coeff 0.2 --per_device_train_batch_size 1 --data_order sequential \
    --max_length 64 --learning_rate 1e-3 --max_steps 4 --save_steps 2 --report_to none";

fn train(settings: &str, output: &Path) -> Command {
    let mut command = train_command(output);
    command.env("RAYON_NUM_THREADS", "2").args(settings.split_whitespace());
    command
}

/// `spag-train` of a model on `rows`.
fn train_on(model: impl AsRef<Path>, rows: &str, settings: &str, dir: &Path) -> Command {
    fs::write(dir.join("data.jsonl"), rows).unwrap();
    let mut command = program("spag-train");
    command.env("RAYON_NUM_THREADS", "2").current_dir(dir).args(["--train_data_path", "data.jsonl"]);
    command.arg("--model_name_or_path").arg(model.as_ref()).args(["--output_dir", "out"]);
    command.args(settings.split_whitespace());
    command
}

fn refused(command: &mut Command, code: i32, words: &[&str]) -> String {
    let (_, err) = run(command, code);
    for word in words {
        assert!(err.contains(word), "{word:?} in {err}");
    }
    assert!(err.len() < 10_000 && err.contains("error: "), "{err}");
    err
}

fn sample(numbers: &str) -> String {
    format!("{{\"query\": \"What is it?\", \"target\": \"An apple and a pear.\"{numbers}}}\n")
}

/// Files in a folder that are only there while something is written.
fn temporary_files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

#[test]
fn numbers_out_of_range_are_refused_with_flag_and_range() {
    let dir = tempfile::tempdir().unwrap();
    for (flag, values, range) in [
        ("learning_rate", vec!["1e39", "101", "-1e-9", "nan", "inf"], "at most 100"),
        ("weight_decay", vec!["1e308", "-1"], "at most 100"),
        ("adam_beta1", vec!["1", "nan"], "below 1"),
        ("adam_beta2", vec!["1e9", "-0.1"], "below 1"),
        ("adam_epsilon", vec!["0", "1e-320", "1e300"], "at most 1000"),
        ("max_grad_norm", vec!["-1", "1e300"], "at least 0"),
        ("lm_kl_coeff", vec!["1e308", "inf"], "at most 1000000"),
        ("lm_sft_coeff", vec!["1e308"], "at most 1000000"),
        ("clip_range", vec!["1e308"], "at most 1000000"),
        ("warmup_ratio", vec!["1.5", "nan"], "at most 1"),
        ("num_train_epochs", vec!["1e18", "0", "-1", "nan"], "at most 1000000"),
        ("max_steps", vec!["9223372036854775807", "-2"], "1000000000000"),
        ("warmup_steps", vec!["18446744073709551615"], "at most 1000000000000"),
        ("max_length", vec!["9223372036854775808", "0", "1"], "at most 1048576"),
        ("per_device_train_batch_size", vec!["1099511627776", "0"], "at most 65536"),
        ("per_device_eval_batch_size", vec!["1099511627776", "0"], "at most 65536"),
        ("gradient_accumulation_steps", vec!["9223372036854775808", "0"], "at most 1048576"),
        ("logging_steps", vec!["18446744073709551615", "0"], "at most 1000000000000"),
        ("save_steps", vec!["18446744073709551615", "0"], "at most 1000000000000"),
        ("eval_steps", vec!["18446744073709551615", "0"], "at most 1000000000000"),
        ("save_total_limit", vec!["18446744073709551615", "0"], "at most 1000000000000"),
        ("seed", vec!["18446744073709551616", "-1"], "seed"),
    ] {
        for value in values {
            let mut command = train("", &dir.path().join("out"));
            refused(command.arg(format!("--{flag}={value}")), 2, &[flag, range]);
        }
    }
    assert!(!dir.path().join("out").exists());
}

#[test]
fn largest_number_of_steps_takes_no_memory_and_starts() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    let settings = SHORT.replace("--max_steps 4", "--max_steps 1000000000000 --warmup_steps 1000000000000");
    let _running = Running::start_quietly(&mut train(&settings, &output));
    wait_until("steps", Duration::from_secs(300), || {
        fs::read_to_string(output.join("metrics.jsonl")).is_ok_and(|text| text.lines().count() > 2)
    });
}

/// A copy of the fixture's model whose last embedding, of a token that no sample has, begins with `value`.
fn model_with(value: f32, model: &Path) {
    copy_folder(fixture("tiny-llama"), model);
    change_tensor(model, "model.embed_tokens.weight", |table, shape| table[(shape[0] - 1) * shape[1]] = value);
}

#[test]
fn model_that_is_not_finite_is_refused_before_training() {
    for value in [f32::NAN, f32::INFINITY] {
        let dir = tempfile::tempdir().unwrap();
        model_with(value, &dir.path().join("model"));
        for format in ["--bf16 False", "--bf16 True"] {
            let settings = format!("--max_steps 1 --report_to none {format}");
            let mut command = train_on("model", &sample(""), &settings, dir.path());
            refused(&mut command, 2, &["model/model.safetensors: tensor `model.embed_tokens.weight`", "not finite"]);
            assert!(!dir.path().join("out/model.safetensors").exists());
        }
    }
}

#[test]
fn run_that_skips_every_step_fails_and_names_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "--train_method OfflinePO --num_train_epochs 1 --report_to none";
    let mut command =
        train_on(fixture("tiny-llama"), &format!("\n{}", sample(", \"reward\": 1e308")), settings, dir.path());
    refused(&mut command, 1, &["not finite", "data.jsonl: row 2"]);
    assert!(!dir.path().join("out/model.safetensors").exists());
}

#[test]
fn state_that_is_not_finite_is_never_saved_over_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    model_with(1e16, &dir.path().join("model"));
    // The first step has a learning rate of 0. The second multiplies the weights by -9999.
    let settings =
        "--max_steps 2 --warmup_steps 1 --save_steps 1 --learning_rate 100 --weight_decay 100 --report_to none";
    let mut command = train_on("model", &sample(""), settings, dir.path());
    refused(&mut command, 1, &["after step 2", "not finite", "earlier checkpoints are kept"]);
    let output = dir.path().join("out");
    let steps: Vec<usize> = checkpoint_folders(&output).unwrap().into_iter().map(|(step, _)| step).collect();
    assert_eq!(steps, [1]);
    assert!(!output.join("model.safetensors").exists());
}

#[test]
fn samples_that_cannot_be_trained_on_are_refused_with_file_and_row() {
    let dir = tempfile::tempdir().unwrap();
    let good = sample("");
    let deep = "[".repeat(100_000);
    for (bad, words) in [
        (sample(", \"weight\": -1"), vec!["row 2", "`weight` is -1"]),
        (sample(", \"weight\": 1e309"), vec!["row 2", "out of range"]),
        (sample(", \"reward\": NaN"), vec!["row 2", "NaN"]),
        (sample(", \"type\": \"\\u001b[2J\\nerror: forged\""), vec!["row 2", "type"]),
        (sample(&format!(", \"role\": \"{}\"", "x".repeat(1 << 20))), vec!["row 2"]),
        (sample(&format!(", \"extra\": {deep}")), vec!["row 2", "recursion"]),
        ("\0\0\0\n".to_owned(), vec!["row 2"]),
    ] {
        let err = refused(
            &mut train_on(fixture("tiny-llama"), &[&good, &*bad].concat(), SHORT, dir.path()),
            2,
            &["data.jsonl"],
        );
        assert!(words.iter().all(|word| err.contains(word)), "{words:?} in {err}");
        assert!(!err.contains('\x1b') && !err.contains("\nerror: forged"), "{err}");
    }
    for empty in ["", "\n", "\u{feff}"] {
        refused(&mut train_on(fixture("tiny-llama"), empty, SHORT, dir.path()), 2, &["data.jsonl: the file is empty"]);
    }
    refused(&mut train_on(fixture("tiny-llama"), "[]", SHORT, dir.path()), 2, &["no samples"]);
}

#[test]
fn empty_episodes_replace_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.json"), "").unwrap();
    fs::write(dir.path().join("out.json"), "kept").unwrap();
    let mut command = program("spag-assign-rewards");
    command.current_dir(dir.path()).args(["--input_data_path", "in.json", "--output_data_path", "out.json"]);
    refused(&mut command, 2, &["in.json: the file is empty"]);
    assert_eq!(fs::read_to_string(dir.path().join("out.json")).unwrap(), "kept");
}

#[test]
fn checkpoint_without_its_state_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    run(&mut train(SHORT, &output), 0);
    let whole = fs::read(output.join("model.safetensors")).unwrap();
    let state = output.join("checkpoint-4/trainer_state/state.json");
    let text = fs::read_to_string(&state).unwrap();
    fs::remove_file(&state).unwrap();
    let words = ["checkpoint-4", "there is no trainer_state/state.json", "--overwrite_output_dir"];
    refused(&mut train(SHORT, &output), 2, &words);
    refused(train(SHORT, &output).args(["--resume_from_checkpoint", "latest"]), 2, &words);
    assert!(output.join("checkpoint-4").exists());
    // One that is named is used.
    run(train(SHORT, &output).arg("--resume_from_checkpoint").arg(output.join("checkpoint-2")), 0);
    assert!(fs::read(output.join("model.safetensors")).unwrap() == whole);
    // Altered counts are noticed too.
    for (from, to, why) in [
        ("\"step\": 4", "\"step\": 3", "it is of step 3"),
        ("\"optimizer_updates\": 4", "\"optimizer_updates\": 9", "do not agree"),
        ("\"micro_batches\": 4", "\"micro_batches\": 5", "does not fit this run"),
        ("\"learning_rate\": 0.001", "\"learning_rate\": 1e39", "learning_rate"),
        ("trainer_state/exp_avg.safetensors", "trainer_state/other", "checkpoint-4"),
        ("\"name\": \"model.safetensors\"", "\"name\": \"config.json\"", "checkpoint-4"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        fs::write(&state, text.replace(from, to)).unwrap();
        refused(train(SHORT, &output).args(["--resume_from_checkpoint", "latest"]), 2, &["checkpoint-4", why]);
    }
    fs::remove_file(&state).unwrap();
    run(train(SHORT, &output).args(["--overwrite_output_dir", "True"]), 0);
    assert!(fs::read(output.join("model.safetensors")).unwrap() == whole);
}

#[test]
fn changed_reference_values_are_refused_on_resume() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    run(&mut train(SHORT, &output), 0);
    let whole = fs::read(output.join("model.safetensors")).unwrap();
    let kept = fs::read_dir(output.join("ref_log_probs")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, text.replacen(":[-", ":[-1", 1)).unwrap();
    fs::remove_dir_all(output.join("checkpoint-4")).unwrap();
    let name = kept.file_name().unwrap().to_string_lossy().into_owned();
    refused(train(SHORT, &output).args(["--resume_from_checkpoint", "latest"]), 2, &[&name, "checkpoint-2", "delete"]);
    // Deleted, they are computed again.
    fs::remove_file(&kept).unwrap();
    run(train(SHORT, &output).args(["--resume_from_checkpoint", "latest"]), 0);
    assert!(fs::read(output.join("model.safetensors")).unwrap() == whole);
    assert_eq!(fs::read_to_string(&kept).unwrap(), text);
}

#[test]
fn output_folder_removed_while_training_is_an_error() {
    for save in ["--save_strategy no", "--save_steps 3"] {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("out");
        let settings = SHORT.replace("--save_steps 2", save).replace("--max_steps 4", "--max_steps 1000");
        let log = dir.path().join("stderr");
        let mut command = train(&settings, &output);
        let mut running = Running::start(command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap()));
        wait_until("steps", Duration::from_secs(300), || {
            fs::read_to_string(output.join("metrics.jsonl")).is_ok_and(|text| text.lines().count() > 5)
        });
        // A step may write while the folder is being removed.
        while fs::remove_dir_all(&output).is_err() && output.exists() {}
        let status = running.wait_for(Duration::from_secs(300)).expect("the run ends");
        let err = fs::read_to_string(&log).unwrap();
        assert_eq!(status.code(), Some(1), "{err}");
        assert!(err.contains("out: this output folder was removed"), "{err}");
        assert!(!output.join("model.safetensors").exists());
    }
}

#[test]
fn file_size_limit_is_an_error_and_leaves_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    let limited = |command: &Command, kib: u32| {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("ulimit -f {kib}; exec \"$@\"")).arg("bash");
        shell.arg(command.get_program()).args(command.get_args()).current_dir(command.get_current_dir().unwrap());
        shell.env("RAYON_NUM_THREADS", "2");
        shell
    };
    let output = dir.path().join("out");
    for kib in [1, 500] {
        refused(&mut limited(&train(SHORT, &output), kib), 1, &["File too large"]);
        assert_eq!(temporary_files(&output), [""; 0]);
    }
    assert!(!output.join("model.safetensors").exists());
    let mut command = program("spag-assign-rewards");
    command.arg("--input_data_path").arg(fixture("judge_cases.jsonl"));
    command.arg("--output_data_path").arg(dir.path().join("rewards/out.json"));
    refused(&mut limited(&command, 1), 1, &["File too large", "out.json"]);
    assert_eq!(temporary_files(&dir.path().join("rewards")), [""; 0]);
}

#[test]
fn leftovers_of_killed_runs_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    fs::create_dir_all(output.join(".checkpoint-7.tmp")).unwrap();
    let leftovers = [".model.safetensors.4000000.tmp", ".train_config.json.1.tmp", ".config.json.12.tmp"];
    leftovers.iter().for_each(|name| fs::write(output.join(name), "half").unwrap());
    run(&mut train(SHORT, &output), 0);
    assert_eq!(temporary_files(&output), [""; 0]);
}

/// The error of a DeepSpeed file.
fn deepspeed(text: impl AsRef<[u8]>, words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("zero.json");
    fs::write(&file, text).unwrap();
    let mut command = train(SHORT, &dir.path().join("out"));
    let started = Instant::now();
    let err = refused(command.arg("--deepspeed").arg(&file), 2, &[&["zero.json"], words].concat());
    assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
    assert!(err.chars().all(|c| c == '\n' || !c.is_control()), "{err:?}");
    assert!(err.lines().filter(|line| line.starts_with("error:")).count() == 1, "{err}");
}

#[test]
fn hostile_deepspeed_files_are_refused_in_little_time_and_few_words() {
    deepspeed("{\"fp16\": {\"enabled\": \"\\u202e\\u001b\"}}", &["fp16.enabled"]);
    deepspeed(format!("{{\"{0}\": 1, \"{0}\": 1}}", "x".repeat(1 << 20)), &["given twice"]);
    deepspeed(b"{\"a\": \"\xff\"}", &["UTF-8"]);
    deepspeed("{\"a\": \0}", &["line 1"]);
    deepspeed("", &["EOF"]);
    deepspeed(format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)), &["recursion limit"]);
    deepspeed("{\"gradient_accumulation_steps\": 18446744073709551616}", &["gradient_accumulation_steps"]);
    deepspeed("{\"train_batch_size\": 1e308}", &["train_batch_size"]);
    deepspeed("{\"train_micro_batch_size_per_gpu\": 1099511627776}", &["train_micro_batch_size_per_gpu"]);
    let rate = json!({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 1e308}}});
    deepspeed(rate.to_string(), &["warmup_min_lr", "at most 100"]);
}

#[test]
fn keys_of_a_deepspeed_file_without_an_effect_are_a_short_note() {
    let many: Vec<String> = (0..200_000).map(|n| format!("\"gradient_clippin{n}\": {n}")).collect();
    for (text, words) in [
        (format!("{{\"{}\": 1}}", "gradient_clipping".repeat(1 << 20)), ["no effect here", "bytes left out"]),
        (format!("{{{}}}", many.join(",")), ["gradient_clippin0", "and 199968 more"]),
        ("{\"a\\u001b]0;title\\u0007\\nerror: forged\": 1}".to_owned(), ["no effect here", "forged"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zero.json");
        fs::write(&file, text).unwrap();
        let (_, err) = run(train(SHORT, &dir.path().join("out")).arg("--deepspeed").arg(&file), 0);
        assert!(words.iter().all(|word| err.contains(word)) && err.len() < 20_000, "{err}");
        assert!(!err.contains('\u{1b}') && !err.lines().any(|line| line.starts_with("error")), "{err:?}");
    }
}

#[test]
fn deepspeed_file_may_start_with_a_mark_and_end_lines_with_crlf() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("zero.json");
    fs::write(&file, "\u{feff}{\r\n \"gradient_clipping\": \"auto\"\r\n}\r\n").unwrap();
    let output = dir.path().join("out");
    run(train(SHORT, &output).arg("--deepspeed").arg(&file), 0);
    assert_eq!(read_json(output.join("deepspeed_config.json"))["gradient_clipping"], 1.0);
}
