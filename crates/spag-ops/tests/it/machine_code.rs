//! Checks the machine code of kernels, if nvcc is on the PATH: properties that neither results nor the emulator
//! show.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The expected nvcc release; others allocate registers differently.
const VERSION: &str = "release 13.0";
/// One tab-separated row per kernel: name; registers per thread and spilled bytes on 8.0 and on 9.0, or `-` for kernels not compiled
/// for 8.0; global stores of 16 bytes and of fewer.
const TABLE: &str = "tests/it/machine_code.tsv";

/// The folder of kernels for compute capability 9.0 only.
const HOPPER: &str = "hopper";

/// Runs nvcc; `None` if it is not installed.
fn nvcc(arguments: &[&str]) -> Option<Output> {
    let output = Command::new("nvcc").args(arguments).output();
    let Ok(output) = output else {
        eprintln!("NOT TESTED: the machine code of kernels, since nvcc cannot run");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// The kernel files, relative to `src`.
fn sources() -> Vec<PathBuf> {
    fn find(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                find(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "cu") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.sort();
    found
}

fn is_only_for_hopper(source: &Path) -> bool {
    source.parent().is_some_and(|folder| folder.ends_with(HOPPER))
}

/// The PTX of each kernel of a file.
fn ptx(source: &Path) -> Option<BTreeMap<String, String>> {
    let architecture = if is_only_for_hopper(source) { "compute_90a" } else { "compute_80" };
    let source = source.to_str().unwrap();
    let ptx = text(nvcc(&["--ptx", "-std=c++17", "-O3", "-arch", architecture, "-o", "-", source])?.stdout);
    let kernels = ptx.split(".entry ").skip(1);
    Some(kernels.map(|kernel| (kernel.split('(').next().unwrap().to_owned(), kernel.to_owned())).collect())
}

/// Registers and spilled bytes of each kernel of a file on an architecture, such as 80.
fn resources(source: &Path, architecture: &str) -> Option<BTreeMap<String, (u32, u32)>> {
    let (source, null) = (source.to_str().unwrap(), "/dev/null");
    let code = format!("arch=compute_{architecture},code=sm_{architecture}");
    let output = nvcc(&["--cubin", "-std=c++17", "-O3", "-Xptxas", "-v", "-gencode", &code, "-o", null, source])?;
    let said = text([output.stdout, output.stderr].concat());
    let number = |text: &str, before: &str| -> u32 {
        let words = text.split(before).next().unwrap_or_default().trim_end();
        words.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{said}"))
    };
    let kernels = said.split("Compiling entry function '").skip(1);
    let row = |kernel: &str| {
        let name = kernel.split('\'').next().unwrap().to_owned();
        let spilled = number(kernel, "bytes spill stores") + number(kernel, "bytes spill loads");
        (name, (number(kernel, "registers"), spilled))
    };
    Some(kernels.map(row).collect())
}

/// Global stores of 16 bytes, and of fewer.
fn stores(ptx: &str) -> (usize, usize) {
    let stores: Vec<&str> = ptx.lines().filter(|line| line.contains("st.global")).collect();
    let wide = |line: &&&str| {
        [".v4.b32", ".v4.u32", ".v4.f32", ".v2.b64", ".v2.u64", ".v2.f64"].iter().any(|v| line.contains(v))
    };
    let whole = stores.iter().filter(wide).count();
    (whole, stores.len() - whole)
}

#[test]
fn kernels_have_the_registers_spills_and_stores_of_the_table() {
    let Some(version) = nvcc(&["--version"]) else { return };
    if !text(version.stdout).contains(VERSION) {
        eprintln!("NOT TESTED: the machine code of kernels, since nvcc is not {VERSION}");
        return;
    }
    let mut table = String::new();
    for source in sources() {
        let hopper = is_only_for_hopper(&source);
        let old = (!hopper).then(|| resources(&source, "80").unwrap());
        let new = resources(&source, if hopper { "90a" } else { "90" }).unwrap();
        for (name, ptx) in ptx(&source).unwrap() {
            let old = old.as_ref().map_or("-\t-".into(), |old| format!("{}\t{}", old[&name].0, old[&name].1));
            let ((c, d), (e, f)) = (new[&name], stores(&ptx));
            writeln!(table, "{name}\t{old}\t{c}\t{d}\t{e}\t{f}").unwrap();
        }
    }
    let want = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE)).unwrap();
    if table != want {
        let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machine_code.tsv");
        std::fs::write(&now, &table).unwrap();
        let changed: Vec<&str> = table.lines().filter(|row| !want.lines().any(|known| known == *row)).collect();
        panic!(
            "other machine code than in {TABLE}; if it is meant, copy {} there:\n{}",
            now.display(),
            changed.join("\n")
        );
    }
}

/// Attention tiles are stored 16 bytes at a time. nvcc copies a struct of bf16 from shared memory in parts of 2 and 4
/// bytes.
#[test]
fn tiles_are_stored_in_whole_vectors() {
    for source in ["forward.cu", "backward.cu", "hopper/forward.cu", "hopper/backward.cu"] {
        let Some(kernels) = ptx(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/attention").join(source)) else {
            return;
        };
        let tiles: Vec<_> =
            kernels.iter().filter(|(name, _)| name.ends_with("_64_bf16") || name.ends_with("_128_bf16")).collect();
        assert!(tiles.len() >= 4, "{source}");
        for (name, ptx) in tiles {
            let stores: Vec<&str> = ptx.lines().filter(|line| line.contains("st.global")).collect();
            assert!(stores.iter().any(|store| store.contains(".v4.")), "{name}: {stores:?}");
            // Log-sum-exps are single floats.
            let parts = stores.iter().find(|store| !store.contains(".v4.") && !store.contains(".f32"));
            assert_eq!(parts, None, "{name}");
        }
    }
}
