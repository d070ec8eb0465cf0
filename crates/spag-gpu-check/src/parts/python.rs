//! The same benchmarks in PyTorch and transformers, on the same checkpoint.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use spag_gpu_check::Row;

use super::{Error, Settings, Sink};

/// A program in `benches/baselines`, its flags, and the key of its output to report.
struct Baseline {
    what: String,
    program: &'static str,
    flags: Vec<String>,
    rate: &'static str,
}

pub(super) fn run(settings: &Settings, sink: Sink<'_>) -> Result<(), Error> {
    let python = |args: &[&str]| Command::new(&settings.python).args(args).output();
    let there = python(&["-c", "import torch, transformers; assert torch.cuda.is_available()"]);
    if !there.is_ok_and(|output| output.status.success()) {
        sink(row(
            "torch and transformers",
            "not installed for this Python, or without CUDA: left out".into(),
            Value::Null,
        ));
        return Ok(());
    }
    super::model::make(settings)?;
    let strings = |flags: &[&str]| flags.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (batch, seq) = (settings.batch.to_string(), settings.seq.to_string());
    let step = strings(&["--batch", &batch, "--seq", &seq, "--steps", "3", "--warmup", "1"]);
    let train = |what: &str, more: &[&str]| Baseline {
        what: format!("training step, {batch} × {seq}{what}"),
        program: "train_step.py",
        flags: [step.clone(), strings(more)].concat(),
        rate: "tokens_per_s",
    };
    let play = |batch: &str, games: &str| Baseline {
        what: format!("self-play, {batch} at a time"),
        program: "self_play.py",
        flags: strings(&["--games", games, "--batch", batch, "--turns", "5", "--new-tokens", "48"]),
        rate: "games_per_s",
    };
    let all = [train("", &[]), train(", recomputation", &["--checkpointing"]), play("1", "1"), play("64", "64")];
    for baseline in all {
        sink(one(settings, &baseline)?);
    }
    Ok(())
}

fn one(settings: &Settings, baseline: &Baseline) -> Result<Row, Error> {
    let program = Path::new("benches/baselines").join(baseline.program);
    let output = Command::new(&settings.python)
        .arg(&program)
        .arg(&settings.checkpoint)
        .args(["--device", &format!("cuda:{}", settings.gpu), "--dtype", "bfloat16"])
        .args(&baseline.flags)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let output_json = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let Some(numbers) = output_json.filter(|_| output.status.success()) else {
        let errors = String::from_utf8_lossy(&output.stderr);
        let why = errors.lines().last().unwrap_or("no output").to_owned();
        return Ok(row(&baseline.what, format!("failed: {why}"), Value::Null));
    };
    let rate = numbers[baseline.rate].as_f64().unwrap_or(f64::NAN);
    let memory = numbers["peak_gib"].as_f64().map_or_else(String::new, |gib| format!(", peak {gib:.1} GiB"));
    Ok(row(&baseline.what, format!("{rate:.3} {}{memory}", baseline.rate), numbers))
}

fn row(what: &str, result: String, numbers: Value) -> Row {
    Row { part: "pytorch".into(), what: what.into(), result, numbers: json!(numbers), passed: None }
}
