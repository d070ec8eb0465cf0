//! A rank whose group does not exist, on a device.

use serde_json::Value;
use spag_tests::{program, run};

use crate::training::prepared;

/// Gathered layers are copies of the own part, so the loss shows that streams wait for copies, and copies for what is gathered: the
/// stand-in ends a program whose streams do not.
#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_simulated_ranks_have_the_losses_and_bytes_of_the_cpu() {
    let work = prepared();
    let measured = |device: &str| -> Vec<Value> {
        let mut spag = program("spag");
        spag.args(["bench", "train", "--model_name_or_path"]).arg(work.path().join("model"));
        let flags = "--batch 2 --seq 12 --steps 2 --warmup 1 --rounds 1 --threads 1 --simulate_ranks 8 --gpus_per_node 4 --zero_stage 3 \
            --link 0.2 --network 1.6 --shard_within host --variants timed-links,links-in-turn,instant-links,recompute";
        let (out, _) = run(spag.args(["--device", device]).args(flags.split_whitespace()), 0);
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (cpu, device) = (measured("cpu"), measured("cuda"));
    assert_eq!(cpu.len(), 4);
    for (cpu, device) in cpu.iter().zip(&device) {
        let loss = |line: &Value| line["loss"].as_f64().unwrap();
        assert!((loss(cpu) - loss(device)).abs() <= 1e-3, "{cpu} {device}");
        for key in ["bytes_sent_per_step", "bytes_sent_between_hosts_per_step", "variant"] {
            assert_eq!(cpu[key], device[key], "{key}");
        }
        assert_eq!(cpu["simulated"], device["simulated"]);
    }
}
