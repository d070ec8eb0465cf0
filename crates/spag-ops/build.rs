//! Compiles the kernels if the feature `cuda` is enabled.
//!
//! `src/attention/forward.cu` becomes `attention_forward.fatbin`: machine code for the [`MACHINES`] from CUDA_COMPUTE_CAP
//! (default 80) on, and PTX, which the driver compiles for other GPUs of this or a newer compute capability. This number and
//! the compiler's version are passed to the program, which checks devices against them. Files in a folder [`HOPPER`] use
//! instructions of compute capability 9.0 only and are compiled to machine code for it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compute capabilities that get machine code: A100; A10 and RTX 30; L40 and RTX 40; H100 and H200.
const MACHINES: [u32; 4] = [80, 86, 89, 90];

/// The folder of kernels for compute capability 9.0.
const HOPPER: &str = "hopper";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=CUDA_COMPUTE_CAP");
    if let Err(why) = compile() {
        println!("cargo::error={why}");
    }
}

fn compile() -> Result<(), String> {
    let capability = std::env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| "80".into());
    let Ok(oldest) = capability.parse::<u32>() else {
        return Err(format!("CUDA_COMPUTE_CAP is {capability:?}; a number such as 80 or 90 is expected"));
    };
    let machines: String =
        MACHINES.iter().filter(|machine| **machine >= oldest).map(|machine| format!("sm_{machine},")).collect();
    let code = format!("arch=compute_{capability},code=[{machines}compute_{capability}]");
    println!("cargo::rustc-env=SPAG_CUDA_COMPUTE_CAP={capability}");
    println!("cargo::rustc-env=SPAG_CUDA_VERSION={}", compiler_version()?);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let ops = Path::new("src");
    let mut sources = Vec::new();
    find(ops, &mut sources).map_err(|e| format!("src: {e}"))?;
    // All in parallel: there are a few dozen files, and each takes seconds. Compression reduces the size tenfold.
    let started = sources.iter().map(|source| {
        let name = source.strip_prefix(ops).unwrap_or(source).with_extension("fatbin");
        let name = name.to_string_lossy().replace('/', "_");
        let only_hopper = source.parent().is_some_and(|folder| folder.ends_with(HOPPER));
        let code = if only_hopper { "arch=compute_90a,code=sm_90a" } else { &code };
        let child = Command::new("nvcc")
            .args(["--fatbin", "--compress-mode=size", "-std=c++17", "-O3", "-lineinfo", "-gencode", code, "-o"])
            .args([out.join(name).as_path(), source])
            .spawn();
        child.map_err(|e| {
            format!("nvcc cannot be run ({e}); the feature `cuda` needs the CUDA toolkit, see docs/CUDA.md")
        })
    });
    let started: Vec<_> = started.collect::<Result<_, _>>()?;
    for (mut child, source) in started.into_iter().zip(&sources) {
        match child.wait() {
            Ok(status) if status.success() => {}
            _ => return Err(format!("nvcc could not compile {}", source.display())),
        }
    }
    Ok(())
}

/// The version of nvcc in the drivers' encoding: 13000 for 13.0.
fn compiler_version() -> Result<u32, String> {
    let output = Command::new("nvcc").arg("--version").output();
    let output = output.map_err(|e| {
        format!("nvcc cannot be run ({e}); the feature `cuda` needs the CUDA toolkit, see docs/CUDA.md")
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = || {
        let (_, after) = text.split_once("release ")?;
        let (major, rest) = after.split_once('.')?;
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(major.parse::<u32>().ok()? * 1000 + minor.parse::<u32>().ok()? * 10)
    };
    version().ok_or_else(|| format!("nvcc --version does not say its release: {text}"))
}

/// Collects the kernels of a folder. Cargo recompiles them if they or their includes change, but not if Rust code does.
fn find(dir: &Path, sources: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            find(&path, sources)?;
        } else if matches!(extension, Some("cu" | "cuh")) {
            println!("cargo::rerun-if-changed={}", path.display());
            if extension == Some("cu") {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(())
}
