//! The layers of ARCHITECTURE.md, the use of every dependency and the compiler version of Cargo.toml, checked on
//! `cargo metadata`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};

/// The packages of the workspace, from the bottom up. A package depends only on packages above its own line.
const ORDER: [&str; 27] = [
    "spag-tests",
    "spag-io",
    "spag-run",
    "spag-game",
    "spag-rewards",
    "spag-py",
    "spag-world",
    "spag-math",
    "spag-dist",
    "spag-ops",
    "spag-emulator",
    "spag-stand-in",
    "spag-model",
    "spag-chat",
    "spag-grammar",
    "spag-selfplay",
    "spag-train",
    "spag-eval",
    "spag-pipeline",
    "spag-serve",
    "spag-page",
    "spag-cli",
    "spag-assign-rewards-bin",
    "spag-play-bin",
    "spag-train-bin",
    "spag-bin",
    "spag-benches",
];

const TENSOR_CRATES: [&str; 6] = ["candle-core", "candle-nn", "cudarc", "gemm", "safetensors", "tokenizers"];

/// The workspace and all packages that it depends on, with all features.
fn metadata() -> Metadata {
    let manifest = spag_tests::root().join("Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).features(CargoOpt::AllFeatures).exec().unwrap()
}

/// Packages that `package` builds with, without those of its tests and build script.
fn direct<'a>(metadata: &'a Metadata, package: &PackageId) -> impl Iterator<Item = &'a Package> {
    let node = metadata.resolve.as_ref().unwrap().nodes.iter().find(|node| node.id == *package).unwrap();
    let is_normal = |kinds: &[cargo_metadata::DepKindInfo]| kinds.iter().any(|d| d.kind == DependencyKind::Normal);
    node.deps.iter().filter(move |dependency| is_normal(&dependency.dep_kinds)).map(|d| &metadata[&d.pkg])
}

/// The names of all packages below `name`.
fn below(metadata: &Metadata, name: &str) -> BTreeSet<String> {
    let members = metadata.workspace_packages();
    let mut waiting = vec![members.iter().find(|package| package.name == name).unwrap().id.clone()];
    let mut names = BTreeSet::new();
    while let Some(package) = waiting.pop() {
        for dependency in direct(metadata, &package) {
            if names.insert(dependency.name.to_string()) {
                waiting.push(dependency.id.clone());
            }
        }
    }
    names
}

#[test]
fn every_package_depends_only_on_lower_ones() {
    let metadata = metadata();
    let members = metadata.workspace_packages();
    let names: BTreeSet<&str> = members.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(ORDER), "ORDER lists every package of the workspace");
    let level = |name: &str| ORDER.iter().position(|other| *other == name);
    for package in members {
        for dependency in direct(&metadata, &package.id).filter(|dependency| level(&dependency.name).is_some()) {
            assert!(level(&dependency.name) < level(&package.name), "{} uses {}", package.name, dependency.name);
        }
    }
}

#[test]
fn packages_do_not_reach_what_they_must_not_use() {
    let metadata = metadata();
    for (package, forbidden) in [
        ("spag-io", &TENSOR_CRATES[..]),
        ("spag-game", &TENSOR_CRATES),
        ("spag-rewards", &TENSOR_CRATES),
        ("spag-py", &TENSOR_CRATES),
        ("spag-world", &TENSOR_CRATES),
        ("spag-math", &TENSOR_CRATES),
        ("spag-dist", &["spag-game", "spag-model"]),
        ("spag-ops", &["spag-game", "spag-dist"]),
        ("spag-model", &["spag-game", "spag-dist"]),
        ("spag-chat", &["spag-game", "spag-dist"]),
        ("spag-selfplay", &["spag-rewards", "spag-train"]),
        ("spag-eval", &["spag-rewards", "spag-train"]),
        ("spag-serve", &["spag-game", "spag-rewards", "spag-train"]),
        ("spag-page", &["spag-rewards", "spag-train"]),
        ("spag-play-bin", &["spag-train"]),
        ("spag-assign-rewards-bin", &["spag-train"]),
    ] {
        let below = below(&metadata, package);
        for name in forbidden {
            assert!(!below.contains(*name), "{package} must not reach {name}");
        }
    }
}

/// Appends the text of all Rust files of a folder, except subfolders named `fixtures`.
fn read_sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("fixtures") {
            read_sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Whether a source has a path that begins with a crate, or imports it by its name alone.
fn uses(source: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(name).any(|(at, _)| {
        let (before, after) = (&source[..at], &source[at + name.len()..]);
        !before.ends_with(is_part)
            && (after.starts_with("::") || (before.ends_with("use ") && !after.starts_with(is_part)))
    })
}

#[test]
fn every_dependency_is_used() {
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().unwrap().as_std_path();
        let (mut source, mut tests) = (String::new(), String::new());
        read_sources(&folder.join("src"), &mut source);
        ["tests", "benches", "examples"].iter().for_each(|name| read_sources(&folder.join(name), &mut tests));
        let build = fs::read_to_string(folder.join("build.rs")).unwrap_or_default();
        for dependency in &package.dependencies {
            let name = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
            let used = match dependency.kind {
                DependencyKind::Build => uses(&build, &name),
                // Unit tests are in the folder of sources.
                DependencyKind::Development => uses(&source, &name) || uses(&tests, &name),
                _ => uses(&source, &name),
            };
            assert!(used, "{}: {} is a dependency that no source uses", package.name, dependency.name);
        }
    }
}

/// MSRV: `rust-version` in Cargo.toml. Clippy's `incompatible_msrv` checks our own code.
#[test]
fn no_dependency_needs_a_newer_compiler() {
    let metadata = metadata();
    let ours = metadata.workspace_packages()[0].rust_version.clone().unwrap();
    for package in &metadata.packages {
        if let Some(needed) = &package.rust_version {
            assert!(
                *needed <= ours,
                "{} {} needs Rust {needed}, Cargo.toml says {ours}",
                package.name,
                package.version
            );
        }
    }
}
