//! The layers of ARCHITECTURE.md: dependencies point downwards only, and the pure crates know no tensor library.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crates from the bottom up; a crate may depend on those before it alone.
const ORDER: [&str; 10] = [
    "spag-io",
    "spag-game",
    "spag-rewards",
    "spag-world",
    "spag-dist",
    "spag-model",
    "spag-selfplay",
    "spag-train",
    "spag-pipeline",
    "spag-cli",
];

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new().manifest_path(spag_tests::root().join("Cargo.toml")).exec().unwrap();
    metadata
        .packages
        .iter()
        .map(|package| {
            let normal = package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal && !d.optional);
            (package.name.to_string(), normal.map(|d| d.name.clone()).collect())
        })
        .collect()
}

fn reachable(all: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(name) = waiting.pop() {
        for dependency in all.get(&name).into_iter().flatten() {
            if seen.insert(dependency.clone()) {
                waiting.push(dependency.clone());
            }
        }
    }
    seen
}

#[test]
fn dependencies_point_downwards() {
    let all = dependencies();
    for (level, name) in ORDER.iter().enumerate() {
        for dependency in &all[*name] {
            if let Some(other) = ORDER.iter().position(|o| o == dependency) {
                assert!(other < level, "{name} must not depend on {dependency}");
            }
        }
    }
}

#[test]
fn pure_crates_know_no_tensors() {
    let all = dependencies();
    for name in ["spag-game", "spag-rewards", "spag-world"] {
        for heavy in ["candle-core", "candle-nn", "gemm", "tokenizers", "safetensors"] {
            assert!(!reachable(&all, name).contains(heavy), "{name} must not need {heavy}");
        }
    }
}

#[test]
fn each_layer_knows_only_its_own_matter() {
    let all = dependencies();
    let knows = |name: &str, other: &str| reachable(&all, name).contains(other);
    assert!(!knows("spag-model", "spag-game"), "models know tokens, never games");
    assert!(!knows("spag-selfplay", "spag-rewards"), "players play, they do not pay");
    assert!(!knows("spag-dist", "spag-model"), "process groups know buffers, never models");
    assert!(!knows("spag-play-bin", "spag-train"), "playing needs no training");
}
