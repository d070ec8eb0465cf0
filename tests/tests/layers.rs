//! The layers of ARCHITECTURE.md and the compiler version of Cargo.toml, checked on `cargo metadata`.

use std::collections::BTreeSet;

use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};

/// The packages of the workspace, from the bottom up. A package depends only on packages above its own line.
const ORDER: [&str; 21] = [
    "spag-tests",
    "spag-io",
    "spag-game",
    "spag-rewards",
    "spag-world",
    "spag-dist",
    "spag-model",
    "spag-selfplay",
    "spag-train",
    "spag-eval",
    "spag-pipeline",
    "spag-serve",
    "spag-page",
    "spag-cli",
    "spag-emulator",
    "spag-gpu-check",
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
        ("spag-world", &TENSOR_CRATES),
        ("spag-dist", &["spag-game", "spag-model"]),
        ("spag-model", &["spag-game", "spag-dist"]),
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
