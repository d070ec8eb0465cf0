//! `spag bench train --simulate_ranks`: rank 0 of ranks that do not exist.

use std::process::Command;

use serde_json::Value;
use spag_tests::{program, root, run};

/// A short measurement of the small model.
fn bench(spag: &mut Command, flags: &str) -> Vec<Value> {
    spag.args(["bench", "train", "--model_name_or_path"]).arg(root().join("data/tiny-llama"));
    spag.args("--batch 2 --seq 16 --steps 2 --warmup 1 --threads 1 --device cpu".split(' '))
        .args(flags.split_whitespace());
    let (out, _) = run(spag, 0);
    let line = |line: &str| serde_json::from_str(line.strip_prefix("[rank 0] ").unwrap_or(line)).unwrap();
    out.lines().map(line).collect()
}

/// What a rank sends does not depend on whether the others exist, and neither does the number of tokens of a step.
#[test]
fn bytes_are_those_of_real_ranks() {
    for (ranks, flags) in [("2", "--zero_stage 3"), ("4", "--zero_stage 1"), ("3", "--zero_stage 0")] {
        let mut launcher = program("spag");
        let spag = launcher.get_program().to_owned();
        launcher.args(["launch", "--nproc_per_node", ranks, "--"]).arg(spag);
        let real = bench(&mut launcher, flags);
        let simulated = bench(&mut program("spag"), &format!("{flags} --simulate_ranks {ranks}"));
        for key in ["ranks", "params", "bytes_sent_per_step", "zero_stage", "kernels_per_step"] {
            assert_eq!(simulated[0][key], real[0][key], "{key} of {ranks} ranks, {flags}");
        }
        assert!(real[0]["simulated"].is_null() && simulated[0]["bytes_sent_per_step"].as_u64() > Some(1_000_000));
        assert!(simulated[0]["loss"].as_f64().is_some_and(f64::is_finite), "{}", simulated[0]);
    }
}

#[test]
fn links_take_time_beside_the_step_and_gathers_may_overtake() {
    let flags = "--zero_stage 3 --shard_within host --simulate_ranks 4 --gpus_per_node 2 --link 0.5 --network 4 --rounds 1 --variants \
        timed-links,links-in-turn,instant-links,instant-links+recompute";
    let lines = bench(&mut program("spag"), flags);
    let number = |line: &Value, key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key}: {line}"));
    let link = |line: &Value| number(&line["simulated"], "link_seconds_per_step");
    let sent = number(&lines[0], "bytes_sent_per_step");
    let between = number(&lines[0], "bytes_sent_between_hosts_per_step");
    // The two ranks of a host share its 4 Gbit/s. All steps have the same bytes, and the group sends some before them.
    let seconds = (sent - between) / 0.5e9 + between / (4e9 / 8.0 / 2.0);
    assert!(between > 0.0 && link(&lines[0]) > seconds * 0.99 && link(&lines[0]) < seconds * 1.2, "{lines:?}");
    assert_eq!((link(&lines[1]), link(&lines[2])), (link(&lines[0]), 0.0));
    // A step waits for gathers of layers at least.
    assert!(number(&lines[0], "seconds") >= between / (4e9 / 8.0 / 2.0), "{lines:?}");
    for line in &lines {
        assert_eq!((line["loss"].clone(), line["ranks"].as_u64()), (lines[0]["loss"].clone(), Some(4)));
        assert_eq!(line["simulated"]["gpus_per_node"], 2);
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let refused = |flags: &str, words: &str| {
        let mut spag = program("spag");
        spag.args(["bench", "train", "--model_name_or_path"])
            .arg(root().join("data/tiny-llama"))
            .args(flags.split(' '));
        let (_, err) = run(&mut spag, 2);
        assert!(err.contains(words), "{flags}: {err}");
    };
    refused(
        "--simulate_ranks 12 --gpus_per_node 8",
        "--simulate_ranks 12 --gpus_per_node 8: hosts have equally many ranks",
    );
    refused("--simulate_ranks 0", "--simulate_ranks");
    refused("--link 100", "--simulate_ranks");
    refused("--simulate_ranks 4 --link 0", "--link");
    refused("--variants instant-links,keep", "add --simulate_ranks");
    let mut launcher = program("spag");
    let spag = launcher.get_program().to_owned();
    launcher.args(["launch", "--nproc_per_node", "2", "--"]).arg(spag).args(["bench", "train", "--model_name_or_path"]);
    launcher.arg(root().join("data/tiny-llama")).args(["--simulate_ranks", "2"]);
    let (_, err) = run(&mut launcher, 2);
    assert!(err.contains("--simulate_ranks 2: one process simulates the ranks"), "{err}");
}
