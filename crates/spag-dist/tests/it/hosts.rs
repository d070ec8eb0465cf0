//! Groups within hosts and between hosts: ranks of this machine as hosts, 2 × 2 and 2 × 4.

use std::time::Duration;

use candle_core::{Device, Tensor};
use spag_dist::{HostGroups, ProcessGroup, Result, TcpGroup, Traffic};

use crate::ranks::{self, Launch, report};

const LONG: Duration = Duration::from_secs(300);

/// The program of a rank.
pub(crate) fn rank(job: &str) {
    let group = TcpGroup::join(&ranks::env(), &ranks::options()).unwrap();
    let groups = match group.by_host() {
        Ok(groups) => groups.expect("several hosts"),
        Err(error) => return report(error),
    };
    match job {
        "by-host" => report(reduce(&group, &groups).map_or_else(|error| error.to_string(), |()| "done".into())),
        _ => {
            report("joined");
            let buffer = Tensor::ones(100_000, candle_core::DType::F32, &Device::Cpu).unwrap();
            // Hosts without the lost rank learn of it from the control connections.
            let error = loop {
                if let Err(error) = groups.within.all_reduce(&buffer) {
                    break error;
                }
            };
            report(error);
            report(groups.between.barrier().unwrap_err());
        }
    }
}

/// Element `index` of a rank's buffer; sums of few of them are exact.
fn number(rank: usize, index: usize) -> f32 {
    ((rank + 1) * (index % 1000 + 1)) as f32
}

/// A gradient that is summed within the host and then between hosts: the parts, the sums, and the bytes of each kind of link.
fn reduce(group: &dyn ProcessGroup, groups: &HostGroups) -> Result<()> {
    let HostGroups { within, between } = groups;
    let (rank, hosts, local) = (group.rank(), between.size(), within.size());
    assert_eq!((hosts * local, within.rank(), between.rank()), (group.size(), rank % local, rank / local));
    assert!(within.by_host()?.is_none(), "a host has no further hosts");
    let len = 840 * local;
    let values: Vec<f32> = (0..len).map(|index| number(rank, index)).collect();
    let buffer = Tensor::new(values, &Device::Cpu)?;
    let begun = group.traffic();
    within.reduce_scatter(&buffer)?;
    // Each rank sends L − 1 of L parts to the next of its host.
    let part = len / local;
    let sent = ((local - 1) * part * 4) as u64;
    let reduced = group.traffic();
    assert_eq!(reduced.since(begun), Traffic { sent, received: sent, ..Traffic::default() });
    let own = buffer.narrow(0, within.rank() * part, part)?;
    between.all_reduce(&own)?;
    // 2·(H − 1)/H of its part to the next host.
    let sent = (2 * (hosts - 1) * part / hosts * 4) as u64;
    let moved = Traffic { sent, received: sent, sent_between_hosts: sent, received_between_hosts: sent };
    assert_eq!(group.traffic().since(reduced), moved);
    let sum = |index: usize| (0..group.size()).map(|rank| number(rank, index)).sum::<f32>();
    let expected: Vec<f32> = (within.rank() * part..(within.rank() + 1) * part).map(sum).collect();
    assert_eq!(own.to_vec1::<f32>()?, expected);
    if local > 1 {
        assert_eq!((within.traffic(), between.traffic()), (reduced.since(begun), moved));
    }
    within.all_gather(&buffer)?;
    assert_eq!(buffer.to_vec1::<f32>()?, (0..len).map(sum).collect::<Vec<_>>());
    // The group of all ranks and its parts take turns; its ring leaves a host at the host's last rank.
    let before = group.traffic();
    group.all_reduce(&buffer)?;
    let moved = group.traffic().since(before);
    assert_eq!(moved.sent_between_hosts, if rank % local == local - 1 { moved.sent } else { 0 });
    assert_eq!(moved.received_between_hosts, if rank % local == 0 { moved.received } else { 0 });
    within.barrier()?;
    between.barrier()
}

#[test]
fn sums_within_and_between_hosts_move_the_bytes_of_the_formula() {
    for (hosts, local) in [(2, 2), (2, 4), (3, 1)] {
        let ranks = Launch::new("by-host", hosts * local).on_hosts(hosts).start();
        for mut rank in ranks {
            assert_eq!(rank.receive(LONG), "done", "rank {} of {hosts} × {local}", rank.rank);
            assert!(rank.succeeds(LONG), "rank {}", rank.rank);
        }
    }
}

#[test]
fn hosts_of_unequal_size_are_refused_on_every_rank() {
    let launch = Launch::new("by-host", 3)
        .on_hosts(1)
        .with("LOCAL_WORLD_SIZE", 2)
        .with_for(2, "LOCAL_RANK", 0)
        .with_for(2, "LOCAL_WORLD_SIZE", 1);
    for mut rank in launch.start() {
        let message = rank.receive(LONG);
        assert!(message.contains("rank 2 is on a host with 1 ranks, and rank 0 on one with 2"), "{message}");
        assert!(rank.succeeds(LONG));
    }
}

#[test]
fn killed_rank_ends_the_groups_of_all_hosts() {
    for gone in [1, 2] {
        let mut ranks = Launch::new("within-forever", 4).on_hosts(2).fast().start();
        for rank in &ranks {
            assert_eq!(rank.receive(LONG), "joined");
        }
        ranks[gone].signal("KILL");
        for rank in ranks.iter_mut().filter(|rank| rank.rank != gone) {
            for _ in 0..2 {
                let message = rank.receive(LONG);
                assert!(message.contains(&format!("lost rank {gone}")), "rank {}: {message}", rank.rank);
            }
            assert!(rank.succeeds(LONG));
        }
    }
}
