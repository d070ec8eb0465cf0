//! Rank 0 of a group whose other ranks do not exist.

use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};
use spag_dist::{
    Collective, Error, GatherPriority, ProcessGroup, SimulatedGroup, SimulatedRanks, Traffic, agree, gather_texts,
};

fn ranks(size: usize, local_size: usize) -> SimulatedRanks {
    SimulatedRanks { size, local_size, link: f64::INFINITY, network: f64::INFINITY, priority: GatherPriority::Overtake }
}

fn group(ranks: SimulatedRanks) -> SimulatedGroup {
    SimulatedGroup::start(ranks, &Device::Cpu).unwrap()
}

#[test]
fn gathers_copy_the_own_part_and_sums_leave_the_buffer() {
    let group = group(ranks(4, 4));
    let buffer = Tensor::new(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &Device::Cpu).unwrap();
    let numbers = || buffer.to_vec1::<f32>().unwrap();
    group.all_reduce(&buffer).unwrap();
    group.reduce_scatter(&buffer).unwrap();
    group.broadcast(&buffer, 0).unwrap();
    group.barrier().unwrap();
    assert_eq!(numbers(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    group.with_priority().unwrap().all_gather(&buffer).unwrap();
    assert_eq!(numbers(), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    // 2·3/4 of 32 bytes, 3/4, all of them, and 3/4.
    assert_eq!(group.traffic(), Traffic { sent: 48 + 24 + 32 + 24, received: 48 + 24 + 24, ..Traffic::default() });
    assert_eq!(gather_texts(&group, "größer").unwrap(), ["größer"; 4]);
    agree(&group, &[("version", "1".into())]).unwrap();
    let odd = Tensor::zeros(7, DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(group.all_gather(&odd), Err(Error::Buffer { .. })));
}

#[test]
fn groups_by_host_have_their_own_rings() {
    let group = group(ranks(8, 4));
    let groups = group.by_host().unwrap().expect("two hosts");
    assert_eq!((group.size(), groups.within.size(), groups.between.size()), (8, 4, 2));
    let buffer = Tensor::zeros(64, DType::F32, &Device::Cpu).unwrap();
    groups.within.reduce_scatter(&buffer).unwrap();
    groups.between.all_reduce(&buffer.narrow(0, 0, 16).unwrap()).unwrap();
    let between = Traffic { sent: 64, received: 64, sent_between_hosts: 64, received_between_hosts: 64 };
    assert_eq!((groups.within.traffic().sent, groups.between.traffic()), (192, between));
    assert_eq!((group.traffic().sent, group.traffic().sent_between_hosts), (256, 64));
    assert!(groups.within.by_host().unwrap().is_none());
    assert!(SimulatedGroup::start(ranks(4, 8), &Device::Cpu).unwrap().by_host().unwrap().is_none());
    let unequal = SimulatedGroup::start(ranks(6, 4), &Device::Cpu).unwrap().by_host();
    assert_eq!(unequal.err(), Some(Error::UnequalHosts { rank: 4, theirs: 2, first: 4 }));
}

/// A rank of 4 sends 3/4 of the bytes in a gather; two gathers of a link wait for each other.
#[test]
fn collectives_take_the_time_of_their_bytes() {
    let group = group(SimulatedRanks { link: 3e6, ..ranks(4, 4) });
    let buffers = [0, 1].map(|_| Tensor::zeros(20_000, DType::F32, &Device::Cpu).unwrap());
    let began = Instant::now();
    let pending = buffers.map(|buffer| group.start(Collective::AllGather(buffer)).unwrap());
    for one in pending {
        one.wait().unwrap();
    }
    let both = Duration::from_millis(40);
    assert!(began.elapsed() >= both, "{:?}", began.elapsed());
    assert_eq!(group.busy(), both);
    // Between hosts the network bounds the ring: 7/8 of 80 kB at 7 MB/s.
    let group = SimulatedGroup::start(SimulatedRanks { link: 1e9, network: 7e6, ..ranks(8, 4) }, &Device::Cpu).unwrap();
    group.all_gather(&Tensor::zeros(20_000, DType::F32, &Device::Cpu).unwrap()).unwrap();
    assert_eq!(group.busy(), Duration::from_millis(10));
}
