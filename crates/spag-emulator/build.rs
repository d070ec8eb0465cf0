//! Compiles the emulator and, as C++, every kernel of spag-ops.

use std::path::{Path, PathBuf};

fn main() {
    let ops = Path::new("../spag-ops/src");
    println!("cargo::rerun-if-changed=cuda");
    println!("cargo::rerun-if-changed={}", ops.display());
    let mut kernels = Vec::new();
    find(ops, &mut kernels).expect("the kernels are beside the ops");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let plain = || {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").opt_level(2).include("cuda").define("SPAG_EMULATOR", None);
        // nvcc reports warnings about kernels.
        build.warnings(false).flag("-ffp-contract=off");
        // Also in a shared library, each access of the running thread would else be a call.
        build.flag_if_supported("-ftls-model=initial-exec");
        build
    };
    let mut build = plain();
    // Calls of the emulator before each access to memory; the library of ThreadSanitizer is not linked.
    build.flag_if_supported("-fsanitize=thread");
    // Faulty kernels, for the emulator's own tests.
    kernels.extend(["cuda/faulty.cu", "cuda/faulty_warpgroups.cu"].map(PathBuf::from));
    for kernel in kernels {
        // One namespace per kernel file, because helpers of different files may have the same names.
        let path = kernel.canonicalize().expect("it was found a moment ago");
        let headers = ops.canonicalize().expect("it was found a moment ago").join("cuda/wgmma.cuh");
        let name = kernel.strip_prefix(ops).unwrap_or(&kernel).to_string_lossy().replace(['/', '.'], "_");
        let text =
            format!("#include \"{}\"\nnamespace {name} {{\n#include \"{}\"\n}}\n", headers.display(), path.display());
        let file = out.join(format!("{name}.cpp"));
        std::fs::write(&file, text).expect("OUT_DIR can be written");
        build.file(file);
    }
    // Kernels register themselves; no other object refers to theirs.
    build.link_lib_modifier("+whole-archive").compile("spag_emulated_kernels");
    let parts = ["emulator", "races", "barriers", "products"].map(|part| format!("cuda/{part}.cpp"));
    plain().files(parts).compile("spag_emulator");
}

fn find(dir: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "cu") {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}
