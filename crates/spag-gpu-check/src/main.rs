//! `spag-gpu-check`: everything about a GPU machine in one call. `scripts/gpu-check.sh` runs it.
//!
//! Each part runs in a process of its own, so that a kernel which fails takes nothing else along and memory is free
//! again for the next.

mod parts;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use serde_json::json;
use spag_gpu_check::{Report, Row};

use parts::{Part, Settings};

/// Check a GPU and measure it: kernels, parity, ceilings, ops, 7B training, generation and self-play, and PyTorch.
#[derive(Debug, Parser)]
#[command(version, rename_all = "snake_case")]
struct Args {
    /// Parts to run, in this order; all where none is named.
    #[arg(long, value_delimiter = ',', value_enum)]
    parts: Vec<Part>,
    /// File that gets the rows as JSON.
    #[arg(long, value_name = "FILE", default_value = "gpu-check.json")]
    json: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Runs one part here and prints its rows as JSON lines.
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
        // A row is plain data.
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
        if let Err(why) = in_a_process(part, &args.settings, &mut report) {
            report.add(Row {
                part: part.name().into(),
                what: "the part as a whole".into(),
                result: why.clone(),
                numbers: json!({ "error": why }),
                passed: Some(false),
            });
        }
        // After every part, so that a call which is cut off leaves what it found.
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

/// Runs a part in a process of its own and takes over its rows.
fn in_a_process(part: Part, settings: &Settings, report: &mut Report) -> Result<(), String> {
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
        Ok(status) => Err(format!("it ended with {status}; its errors are above")),
        Err(e) => Err(e.to_string()),
    }
}
