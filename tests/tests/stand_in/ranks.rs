//! Several processes with NCCL.

use std::path::Path;
use std::time::Duration;

use spag_tests::{Ended, Ranks, wait_until};

use crate::training::{assert_near, end, prepared, train};

/// How long ranks may take: they share two cores on a small machine.
const LIMIT: Duration = Duration::from_secs(600);

fn start(work: &Path, output: &Path, ranks: usize, more: &str) -> Ranks {
    Ranks::start(ranks, |_| train(work, output, 4 / ranks, more))
}

fn all(ended: &[Ended]) -> String {
    ended.iter().map(|ended| format!("{}\n{}\n", ended.status, ended.output)).collect()
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_every_stage_with_offload_gives_the_bits_of_stage_0() {
    let work = prepared();
    let trained = |name: &str, ranks: usize, more: &str| {
        let output = work.path().join(name);
        let ended = start(work.path(), &output, ranks, more).ended(LIMIT, None);
        assert!(ended.iter().all(|ended| ended.status.success()), "{name}: {}", all(&ended));
        end(&output)
    };
    let one = trained("one", 1, "--device cpu");
    let first = trained("0", 4, "--device auto --zero_stage 0");
    assert_near(&first.0, &one.0, "four ranks");
    let rounded = trained("0 with gradients in bf16", 4, "--zero_stage 0 --optim_grad_dtype bf16");
    assert!(rounded.0[0] == first.0[0] && rounded.1 != first.1, "gradients are not rounded");
    let offloaded = "--zero_stage 3 --offload_optimizer cpu --offload_param cpu --optim_grad_dtype bf16";
    assert!(
        trained("3 with gradients in bf16", 4, offloaded) == rounded,
        "gradients in bf16: other bits than in stage 0"
    );
    for (name, more) in [
        ("1", "--zero_stage 1"),
        ("2", "--zero_stage 2 --offload_optimizer cpu"),
        ("3", "--zero_stage 3 --gradient_checkpointing True"),
        ("3 with offload", "--zero_stage 3 --offload_optimizer cpu --offload_param cpu"),
    ] {
        assert!(trained(name, 4, more) == first, "stage {name}: other bits than in stage 0");
    }
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_a_killed_rank_ends_the_run_on_all_ranks() {
    let work = prepared();
    let output = work.path().join("out");
    let mut ranks = start(work.path(), &output, 2, "--zero_stage 3 --max_steps 100000");
    wait_until("steps are taken", LIMIT, || {
        std::fs::metadata(output.join("metrics.jsonl")).is_ok_and(|file| file.len() >= 500)
    });
    ranks.kill(1);
    let ended = ranks.ended(LIMIT, Some(1));
    assert_eq!(ended[0].status.code(), Some(1), "{}", all(&ended));
    assert!(ended[0].output.contains("rank 1") && ended[0].output.contains("lost"), "{}", all(&ended));
}

/// NCCL has no timeout of its own while it connects the ranks.
#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_nccl_that_never_connects_ends_the_run() {
    let work = prepared();
    let output = work.path().join("out");
    let hanging = |_| {
        let mut command = train(work.path(), &output, 2, "--zero_stage 3");
        command.env("STAND_IN_NCCL_HANGS", "1").env("SPAG_COLLECTIVE_TIMEOUT", "5");
        command
    };
    let ended = Ranks::start(2, hanging).ended(LIMIT, None);
    for one in &ended {
        assert_eq!(one.status.code(), Some(1), "{}", all(&ended));
        assert!(one.output.contains("NCCL has not connected") && one.output.contains("rank "), "{}", all(&ended));
    }
    assert!(!output.join("model.safetensors").exists());
}
