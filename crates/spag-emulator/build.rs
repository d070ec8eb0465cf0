//! Compiles the emulator, and every kernel of spag-ops as C++.

use std::path::{Path, PathBuf};

fn main() {
    let ops = Path::new("../spag-ops/src");
    println!("cargo::rerun-if-changed=cuda");
    let mut kernels = Vec::new();
    find(ops, &mut kernels).expect("the kernels are beside the ops");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let plain = || {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").opt_level(2).include("cuda").define("SPAG_EMULATOR", None);
        // Warnings about kernels are reported by nvcc.
        build.warnings(false).flag("-ffp-contract=off");
        // Without it, each access to the running thread would be a call in a shared library.
        build.flag_if_supported("-ftls-model=initial-exec");
        build
    };
    let mut build = plain();
    // Calls the emulator before each memory access; ThreadSanitizer's library is not linked.
    build.flag_if_supported("-fsanitize=thread");
    // Faulty kernels for the emulator's own tests.
    kernels.extend(["cuda/faulty.cu", "cuda/faulty_warpgroups.cu"].map(PathBuf::from));
    for kernel in kernels {
        // One namespace per kernel file, since helpers of different files may share names.
        let path = kernel.canonicalize().expect("it was found a moment ago");
        let headers = ops.canonicalize().expect("it was found a moment ago").join("cuda/wgmma.cuh");
        let name = kernel.strip_prefix(ops).unwrap_or(&kernel).to_string_lossy().replace(['/', '.'], "_");
        let text =
            format!("#include \"{}\"\nnamespace {name} {{\n#include \"{}\"\n}}\n", headers.display(), path.display());
        let file = out.join(format!("{name}.cpp"));
        std::fs::write(&file, text).expect("OUT_DIR can be written");
        build.file(file);
    }
    // Kernels register themselves; no other object refers to them.
    build.link_lib_modifier("+whole-archive").compile("spag_emulated_kernels");
    let parts = ["emulator", "races", "barriers", "products"].map(|part| format!("cuda/{part}.cpp"));
    plain().files(parts).compile("spag_emulator");
}

/// Collects the kernels of a folder, and watches them and their includes.
fn find(dir: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            find(&path, found)?;
        } else if matches!(extension, Some("cu" | "cuh")) {
            println!("cargo::rerun-if-changed={}", path.display());
            if extension == Some("cu") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(())
}
