//! `spag-train` on several ranks: the same result as one process in every ZeRO stage, resume after a kill, and errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spag_tests::{Ranks, fixture, json, json_lines, program, send_signal, train_command, wait_until};

/// The settings of the fixtures without the method; 12 steps of 4 micro-batches, which the ranks share.
const SETTINGS: &str = "--per_device_train_batch_size 2 --max_length 96 --learning_rate 1e-3 --lr_scheduler_type cosine \
    --warmup_ratio 0.1 --weight_decay 0.01 --data_order sequential";
const METHODS: [(&str, &str); 2] = [
    ("SFTwithKL", "--train_method SFTwithKL --lm_kl_coeff 0.1"),
    ("OfflinePO", "--train_method OfflinePO --lm_kl_coeff 0.2 --lm_sft_coeff 0.5"),
];
/// Micro-batches of a step, of all ranks together.
const MICRO_BATCHES: usize = 4;

/// One epoch, unless `more` says how many.
pub(crate) fn train(method: &str, ranks: usize, output: &Path, more: &str) -> Command {
    let (_, flags) = METHODS.iter().find(|(name, _)| *name == method).unwrap();
    let mut command = train_command(output);
    command.arg("--gradient_accumulation_steps").arg((MICRO_BATCHES / ranks).to_string());
    command.args(SETTINGS.split_whitespace());
    if !more.contains("--num_train_epochs") {
        command.args(["--num_train_epochs", "1"]);
    }
    command.args(flags.split_whitespace()).args(more.split_whitespace());
    command
}

fn train_on(method: &str, ranks: usize, output: &Path, more: &str) {
    Ranks::start(ranks, |_| train(method, ranks, output, more)).succeed();
}

/// Loss, learning rate and gradient norm of each step.
pub(crate) fn curve(output: &Path) -> Vec<[f64; 3]> {
    let lines = json_lines(output.join("metrics.jsonl")).into_iter();
    lines.map(|line| ["loss", "learning_rate", "grad_norm"].map(|key| line[key].as_f64().unwrap())).collect()
}

fn weights(file: &Path) -> Vec<(String, Vec<f32>)> {
    let tensors = candle_core::safetensors::load(file, &Device::Cpu).unwrap();
    let flat = |tensor: Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let mut all: Vec<_> = tensors.into_iter().map(|(name, tensor)| (name, flat(tensor))).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

/// The end of a run: its curve, and the bytes of its model.
pub(crate) fn end(output: &Path) -> (Vec<[f64; 3]>, Vec<u8>) {
    (curve(output), fs::read(output.join("model.safetensors")).unwrap())
}

/// Whether two models differ by less than 1e-5, except elements whose gradient is rounding noise, which AdamW scales to
/// whole steps.
pub(crate) fn assert_close(got: &Path, want: &Path, what: &str) {
    let (mut apart, mut count, mut worst) = (Vec::new(), 0, 0f32);
    for ((name, got), (of, want)) in weights(got).into_iter().zip(weights(want)) {
        assert_eq!(name, of);
        count += want.len();
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            worst = worst.max((got - want).abs());
            if (got - want).abs() > 1e-5 {
                apart.push((name.clone(), at, *got, *want));
            }
        }
    }
    assert!(apart.len() <= 2 && worst < 2e-4 && count > 0, "{what}: {} apart by up to {worst}: {apart:?}", apart.len());
}

pub(crate) fn assert_same_curve(got: &[[f64; 3]], want: &[[f64; 3]], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (step, (got, want)) in got.iter().zip(want).enumerate() {
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{what}, step {}: {got} {want}", step + 1);
        }
    }
}

/// Trains in one process and compares with the fixture.
fn train_single(work: &Path, method: &str) -> PathBuf {
    let output = work.join(format!("{method}-alone"));
    train_on(method, 1, &output, "");
    assert_close(
        &output.join("model.safetensors"),
        &fixture(format!("training/{method}_final.safetensors")),
        &format!("{method} alone"),
    );
    output
}

#[test]
fn every_stage_matches_one_process() {
    let work = tempfile::tempdir().unwrap();
    for (method, _) in METHODS {
        let single = train_single(work.path(), method);
        let expected = end(&single);
        for ranks in [1, 2, 4] {
            let mut first: Option<(Vec<[f64; 3]>, Vec<u8>)> = None;
            for stage in 0..=3 {
                let offloads = match stage {
                    0 => ["", "--gradient_checkpointing True"],
                    3 => ["", "--gradient_checkpointing True --offload_optimizer cpu --offload_param cpu"],
                    _ => ["", "--gradient_checkpointing True --offload_optimizer cpu"],
                };
                for (variant, offload) in offloads.iter().enumerate() {
                    let what = format!("{method}, {ranks} ranks, stage {stage}{offload}");
                    let output = work.path().join(format!("{method}-{ranks}-{stage}-{variant}"));
                    train_on(method, ranks, &output, &format!("--zero_stage {stage} {offload}"));
                    let got = end(&output);
                    assert_same_curve(&got.0, &expected.0, &what);
                    assert_close(&output.join("model.safetensors"), &single.join("model.safetensors"), &what);
                    let first = first.get_or_insert_with(|| got.clone());
                    assert!(got.0 == first.0, "{what}: another curve than in stage 0");
                    assert!(got.1 == first.1, "{what}: other bits than in stage 0");
                }
            }
        }
    }
}

/// Three ranks, five samples: the last rank has one micro-batch less, in training and in evaluation.
#[test]
fn uneven_shares_match_one_process() {
    let work = tempfile::tempdir().unwrap();
    let items = json(fixture("training/train_items.json"));
    let few = work.path().join("few.json");
    fs::write(&few, serde_json::to_vec(&items.as_array().unwrap()[..5]).unwrap()).unwrap();
    let run = |ranks: usize, stage: usize| {
        let output = work.path().join(format!("uneven-{ranks}-{stage}"));
        let command = |_| {
            let mut command = program("spag-train");
            command.arg("--model_name_or_path").arg(fixture("tiny-llama"));
            command.arg("--train_data_path").arg(&few).arg("--eval_data_path");
            command.arg(fixture("training/train_items.json")).arg("--output_dir").arg(&output);
            command.args("--per_device_eval_batch_size 7 --evaluation_strategy epoch".split_whitespace());
            command
                .args("--per_device_train_batch_size 1 --num_train_epochs 4 --learning_rate 1e-3".split_whitespace());
            command.args("--train_method SFTwithKL --lm_kl_coeff 0.1 --max_length 96".split_whitespace());
            command.args(["--gradient_accumulation_steps", &(6 / ranks).to_string(), "--zero_stage"]);
            command.arg(stage.to_string());
            command
        };
        Ranks::start(ranks, command).succeed();
        let lines = json_lines(output.join("metrics.jsonl")).into_iter();
        // Lines of steps and of evaluations, in the order in which they were written.
        let number = |line: &Value| ["loss", "eval_loss"].iter().find_map(|key| line[*key].as_f64()).unwrap();
        (lines.map(|line| number(&line)).collect::<Vec<f64>>(), output.join("model.safetensors"))
    };
    let (losses, model) = run(1, 0);
    assert_eq!(losses.len(), 8, "a line a step and one an evaluation: {losses:?}");
    for stage in [0, 2, 3] {
        let (sharded_losses, sharded_model) = run(3, stage);
        assert_eq!(sharded_losses.len(), losses.len());
        for (sharded, single) in sharded_losses.iter().zip(&losses) {
            assert!((sharded - single).abs() <= 1e-5 * single.abs().max(1.0), "stage {stage}: {sharded} {single}");
        }
        assert_close(&sharded_model, &model, &format!("uneven, stage {stage}"));
    }
}

#[test]
fn checkpoint_of_four_ranks_resumes_on_two_and_one() {
    let work = tempfile::tempdir().unwrap();
    // Small files, so that each rank writes some of every part.
    let saving = "--zero_stage 3 --save_strategy steps --save_steps 5 --max_shard_size 40KB";
    let four = work.path().join("four");
    train_on("OfflinePO", 4, &four, saving);
    let saved = four.join("checkpoint-5");
    assert!(saved.join("model.safetensors.index.json").exists() && !saved.join("model.safetensors").exists());
    // The same run with one file of weights at its end.
    let whole = work.path().join("whole");
    train_on("OfflinePO", 4, &whole, "--zero_stage 3");
    for (ranks, stage) in [(4, 3), (4, 1), (2, 3), (2, 0), (1, 0)] {
        let output = work.path().join(format!("from-four-{ranks}-{stage}"));
        let from = four.join("checkpoint-5");
        let more = format!("--zero_stage {stage} --resume_from_checkpoint {}", from.display());
        train_on("OfflinePO", ranks, &output, &more);
        let what = format!("from 4 ranks to {ranks}, stage {stage}");
        assert_same_curve(&curve(&output), &curve(&four)[5..], &what);
        assert_close(&output.join("model.safetensors"), &whole.join("model.safetensors"), &what);
        if ranks == 4 {
            assert!(end(&output).1 == end(&whole).1, "{what}: other bits");
        }
    }
    // A run with another global batch cannot resume.
    let output = work.path().join("other");
    let from = four.join("checkpoint-5");
    let command = |_| {
        let mut command = train("OfflinePO", 1, &output, "");
        command.arg("--resume_from_checkpoint").arg(&from);
        command
    };
    for ended in Ranks::start(2, command).ended(Duration::from_secs(300), None) {
        assert!(!ended.status.success());
        let words = "--gradient_accumulation_steps was 1 on 4 ranks and is 4 on 2";
        assert!(ended.output.contains(words), "{}", ended.output);
    }
}

/// The live child processes of `parent`.
fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A name in brackets, which may hold anything, the state, and the parent.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
        if let Some([state, of, ..]) = fields.as_deref()
            && *state != "Z"
            && of.parse() == Ok(parent)
        {
            found.push(id);
        }
    }
    found
}

#[test]
fn ten_killed_ranks_do_not_change_the_result() {
    let work = tempfile::tempdir().unwrap();
    let saving = "--zero_stage 2 --num_train_epochs 8 --save_strategy steps --save_steps 2 --save_total_limit 2";
    let launch = |output: &Path, log: &Path| {
        let mut command = program("spag");
        command.args(["launch", "--nproc_per_node", "2", "--max_restarts", "10", "--", "spag-train"]);
        command.args(train("OfflinePO", 2, output, saving).get_args()).env("RAYON_NUM_THREADS", "1");
        let log = fs::File::create(log).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    };
    let (whole, log) = (work.path().join("whole"), work.path().join("log"));
    let started = Instant::now();
    assert!(launch(&whole, &log).wait().unwrap().success(), "{}", fs::read_to_string(&log).unwrap());
    let took = started.elapsed();
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (mut killed, mut round) = (0, 0);
    while killed < 10 {
        let output = work.path().join(format!("killed-{round}"));
        round += 1;
        let mut launcher = launch(&output, &log);
        let status = loop {
            std::thread::sleep(took.mul_f64(rng.random_range(0.0..0.3)));
            if let Some(status) = launcher.try_wait().unwrap() {
                break status;
            }
            let ranks = children(launcher.id());
            if killed == 10 || ranks.is_empty() {
                continue;
            }
            let victim = ranks[rng.random_range(0..ranks.len())].to_string();
            killed += usize::from(Command::new("kill").args(["-KILL", &victim]).status().unwrap().success());
        };
        assert!(status.success(), "{}", fs::read_to_string(&log).unwrap());
        let (got, want) = (end(&output), end(&whole));
        assert!(got.1 == want.1, "other bits after {killed} kills");
        assert!(got.0 == want.0, "another curve after {killed} kills");
    }
}

/// Enough steps to interrupt a rank.
const LONG: &str = "--zero_stage 3 --max_steps 100000";

/// Starts ranks that train until they are interrupted, and waits until they have taken steps.
fn training(work: &Path, ranks: usize, more: impl Fn(usize) -> String) -> Ranks {
    let output = work.join("out");
    let command = |rank: usize| {
        let mut command = train("SFTwithKL", ranks, &output, &more(rank));
        command.args(LONG.split_whitespace());
        command
    };
    let ranks = Ranks::start(ranks, command);
    wait_until("steps are taken", Duration::from_secs(300), || {
        fs::metadata(output.join("metrics.jsonl")).is_ok_and(|file| file.len() >= 500)
    });
    ranks
}

pub(crate) fn assert_named(ended: Vec<spag_tests::Ended>, rank: usize, words: &[&str]) {
    for ended in ended.iter().filter(|ended| ended.status.code().is_some()) {
        assert!(!ended.status.success());
        let said = &ended.output;
        assert!(said.contains(&format!("rank {rank}")) && words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn killed_or_stopped_rank_ends_the_run_on_all_ranks() {
    for victim in [0, 2] {
        let work = tempfile::tempdir().unwrap();
        let mut ranks = training(work.path(), 3, |_| String::new());
        ranks.kill(victim);
        let ended = ranks.ended(Duration::from_secs(300), Some(victim));
        assert!(ended.iter().all(|ended| ended.status.code() == Some(1)), "{ended:?}");
        assert_named(ended, victim, &["lost"]);

        let work = tempfile::tempdir().unwrap();
        let ranks = training(work.path(), 3, |_| String::new());
        send_signal(ranks.id(victim), "STOP");
        let ended = ranks.ended(Duration::from_secs(300), Some(victim));
        assert!(ended.iter().all(|ended| ended.status.code() == Some(1)), "{ended:?}");
        assert_named(ended, victim, &["lost"]);
    }
}

#[test]
fn mismatched_settings_end_the_run_on_all_ranks() {
    let work = tempfile::tempdir().unwrap();
    let other_data = work.path().join("other.json");
    let items = json(fixture("training/train_items.json"));
    fs::write(&other_data, serde_json::to_vec(&items.as_array().unwrap()[1..]).unwrap()).unwrap();
    for (other, words) in [
        ("--adam_beta1 0.8".to_owned(), "--adam_beta1 is 0.8 there and 0.9 on rank 0"),
        ("--zero_stage 2".to_owned(), "--zero_stage is 2 there and 0 on rank 0"),
        (format!("--eval_data_path {}", other_data.display()), "evaluation"),
    ] {
        let output = work.path().join("out");
        let ranks = Ranks::start(2, |rank| train("SFTwithKL", 2, &output, if rank == 1 { &other } else { "" }));
        assert_named(ranks.ended(Duration::from_secs(300), None), 1, &["disagrees", words]);
    }
    // If one rank cannot start, the others report why.
    let output = work.path().join("out");
    let missing = "--eval_data_path no-such-file.json";
    let ranks = Ranks::start(2, |rank| train("SFTwithKL", 2, &output, if rank == 1 { missing } else { "" }));
    let [first, second] = &ranks.ended(Duration::from_secs(300), None)[..] else { panic!("two ranks") };
    assert!(first.output.contains("rank 1 ended the run: ") && first.output.contains("no-such-file.json"), "{first:?}");
    assert!(second.output.contains("no-such-file.json") && second.status.code() == Some(2), "{second:?}");
}
