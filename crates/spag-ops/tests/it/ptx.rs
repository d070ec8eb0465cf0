//! The PTX of kernels, where nvcc is on the PATH: what neither results nor the emulator show.

use std::process::Command;

/// The PTX of a kernel file; `None` without nvcc.
fn ptx(source: &str) -> Option<String> {
    let source = format!("{}/src/{source}", env!("CARGO_MANIFEST_DIR"));
    let nvcc = Command::new("nvcc").args(["--ptx", "-std=c++17", "-arch", "compute_80", "-o", "-", &source]).output();
    let Ok(output) = nvcc else {
        eprintln!("NOT TESTED: the PTX of kernels, since nvcc cannot run");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Tiles of attention write 16 bytes at once. nvcc copies a struct of bf16 from shared memory in parts of 2 and 4 bytes.
#[test]
fn tiles_are_stored_in_whole_vectors() {
    for source in ["attention/forward.cu", "attention/backward.cu"] {
        let Some(ptx) = ptx(source) else { return };
        let kernels: Vec<&str> = ptx
            .split(".entry ")
            .filter(|kernel| {
                let name = kernel.split('(').next().unwrap_or_default();
                name.ends_with("_64_bf16") || name.ends_with("_128_bf16")
            })
            .collect();
        assert!(kernels.len() >= 4, "{source}");
        for kernel in kernels {
            let stores: Vec<&str> = kernel.lines().filter(|line| line.contains("st.global")).collect();
            assert!(stores.iter().any(|store| store.contains(".v4.")), "{source}: {stores:?}");
            // Log-sum-exps are single floats.
            let parts = stores.iter().find(|store| !store.contains(".v4.") && !store.contains(".f32"));
            assert_eq!(parts, None, "{source}");
        }
    }
}
