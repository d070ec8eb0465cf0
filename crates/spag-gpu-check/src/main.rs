//! `spag-gpu-check`: checks and benchmarks a GPU machine. `scripts/gpu-check.sh` runs it.
//!
//! Each part runs in its own process, so that a crash does not affect the others and all memory is freed.

mod parts;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use serde_json::json;
use spag_gpu_check::{Report, Row};

use parts::{Part, Settings};

/// Check and benchmark a GPU: kernels, parity, ceilings, ops, 7B training, generation and self-play, and PyTorch.
#[derive(Debug, Parser)]
#[command(version, rename_all = "snake_case")]
struct Args {
    /// Parts to run, in this order; all by default.
    #[arg(long, value_delimiter = ',', value_enum)]
    parts: Vec<Part>,
    /// Output file of the rows as JSON.
    #[arg(long, value_name = "FILE", default_value = "gpu-check.json")]
    json: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Runs one part in this process and prints its rows as JSON lines.
    #[arg(long, hide = true)]
    child: Option<Part>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match &args.child {
        Some(part) => child(*part, &args.settings),
        None => parent(&args),
    }
}

fn child(part: Part, settings: &Settings) -> ExitCode {
    let mut print = |row: Row| {
        println!("{}", serde_json::to_string(&row).unwrap_or_default());
    };
    match parts::run(part, settings, &mut print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spag-gpu-check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parent(args: &Args) -> ExitCode {
    let device = match parts::describe(&args.settings) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("spag-gpu-check: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{device}");
    let mut report = Report { device, rows: Vec::new() };
    let parts = if args.parts.is_empty() { Part::ALL.to_vec() } else { args.parts.clone() };
    for part in parts {
        if let Err(why) = run_in_process(part, &args.settings, &mut report) {
            report.add(Row {
                part: part.name().into(),
                what: "process".into(),
                result: why.clone(),
                numbers: json!({ "error": why }),
                passed: Some(false),
            });
        }
        // After every part, so that an interrupted run leaves its results.
        if let Err(error) = write(&args.json, &report) {
            eprintln!("spag-gpu-check: {}: {error}", args.json.display());
            return ExitCode::FAILURE;
        }
    }
    println!("\n{report}");
    ExitCode::from(u8::from(report.failed() > 0))
}

fn write(path: &std::path::Path, report: &Report) -> std::io::Result<()> {
    std::fs::write(path, serde_json::to_vec_pretty(report)?)
}

/// Runs a part in a child process and collects its rows.
fn run_in_process(part: Part, settings: &Settings, report: &mut Report) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut child = Command::new(program)
        .args(["--child", part.name()])
        .args(settings.flags())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    if let Some(lines) = child.stdout.take() {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            match serde_json::from_str::<Row>(&line) {
                Ok(row) => report.add(row),
                Err(_) => eprintln!("{line}"),
            }
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("exited with {status}; see the errors above")),
        Err(e) => Err(e.to_string()),
    }
}
