//! `spag-train --shard_within host` on processes that are the ranks of two hosts.

use std::fs;
use std::path::Path;
use std::time::Duration;

use spag_tests::{Ranks, wait_until};

use crate::many_ranks::{assert_close, assert_named, assert_same_curve, curve, end, train};

fn train_on_two_hosts(local: usize, output: &Path, more: &str) {
    Ranks::start_on_hosts(2, local, |_| train("OfflinePO", 2 * local, output, more)).succeed();
}

#[test]
fn shards_within_hosts_train_as_shards_over_all_ranks_and_resume_each_other() {
    let work = tempfile::tempdir().unwrap();
    let folder = |name: &str| work.path().join(name);
    let all = folder("all");
    train_on_two_hosts(2, &all, "--zero_stage 3");
    let saving = "--shard_within host --save_strategy steps --save_steps 5 --zero_stage";
    let first = folder("host-1");
    train_on_two_hosts(2, &first, &format!("{saving} 1"));
    assert_same_curve(&curve(&first), &curve(&all), "within hosts");
    assert_close(&first.join("model.safetensors"), &all.join("model.safetensors"), "within hosts");
    for stage in [0, 2, 3] {
        let output = folder(&format!("host-{stage}"));
        train_on_two_hosts(2, &output, &format!("{saving} {stage}"));
        assert!(end(&output) == end(&first), "stage {stage}: other bits than stage 1");
    }
    let saved = folder("host-3").join("checkpoint-5");
    for (name, more) in [("host", "--shard_within host --zero_stage 2"), ("all", "--zero_stage 3")] {
        let output = folder(&format!("resumed-{name}"));
        train_on_two_hosts(2, &output, &format!("{more} --resume_from_checkpoint {}", saved.display()));
        assert_same_curve(&curve(&output), &curve(&first)[5..], name);
        let (model, want) = (output.join("model.safetensors"), first.join("model.safetensors"));
        match name {
            "host" => assert!(fs::read(&model).unwrap() == fs::read(&want).unwrap(), "resumed with other bits"),
            _ => assert_close(&model, &want, name),
        }
    }
    // One rank on each host: nothing is sharded, and sums are between hosts only.
    let one = folder("one");
    train_on_two_hosts(1, &one, "--shard_within host --zero_stage 3");
    assert_same_curve(&curve(&one), &curve(&all), "hosts of one rank");
}

#[test]
fn ranks_with_other_shards_are_refused_by_name() {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("out");
    let within = |rank: usize| if rank == 3 { "" } else { "--shard_within host" };
    let ranks = Ranks::start_on_hosts(2, 2, |rank| train("OfflinePO", 4, &output, within(rank)));
    assert_named(
        ranks.ended(Duration::from_secs(300), None),
        3,
        &["disagrees", "--shard_within is all there and host"],
    );
}

#[test]
fn killed_rank_ends_the_run_on_both_hosts() {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("out");
    let flags = "--shard_within host --zero_stage 3 --max_steps 100000";
    let mut ranks = Ranks::start_on_hosts(2, 2, |_| train("OfflinePO", 4, &output, flags));
    wait_until("steps are taken", Duration::from_secs(300), || {
        fs::metadata(output.join("metrics.jsonl")).is_ok_and(|file| file.len() >= 500)
    });
    ranks.kill(2);
    let ended = ranks.ended(Duration::from_secs(300), Some(2));
    assert!(ended.iter().all(|ended| ended.status.code() == Some(1)), "{ended:?}");
    assert_named(ended, 2, &["lost"]);
}
