//! Collectives of real processes over TCP, compared with sums in the documented order.

use std::time::Duration;

use crate::ranks::{self, Launch, report};
use candle_core::{DType, Device, Tensor};
use half::bf16;
use spag_dist::{Collective, ProcessGroup, Result, TcpGroup, Traffic, agree, gather_texts};
use spag_tests::reserve_two_ports;

const LONG: Duration = Duration::from_secs(300);
const LENGTHS: [usize; 10] = [0, 1, 2, 3, 4, 5, 64, 1001, 65_537, 300_001];

/// The numbers of a rank, of very different magnitudes, so that sums depend on the order.
fn numbers(rank: usize, len: usize) -> Vec<f64> {
    let number = |index: usize| {
        let bits = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (rank as u64 + 7).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mantissa = (bits >> 40) as f64 / f64::from(1 << 24) - 0.5;
        mantissa * f64::from(10f32.powi((bits % 9) as i32 - 4))
    };
    (0..len).map(number).collect()
}

fn tensor(rank: usize, len: usize, format: DType) -> Tensor {
    let values = Tensor::from_vec(numbers(rank, len), len, &Device::Cpu).unwrap();
    values.to_dtype(format).unwrap().copy().unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype() {
        DType::F32 => tensor.to_vec1::<f32>().unwrap().iter().map(|value| u64::from(value.to_bits())).collect(),
        DType::F64 => tensor.to_vec1::<f64>().unwrap().iter().map(|value| value.to_bits()).collect(),
        DType::BF16 => tensor.to_vec1::<bf16>().unwrap().iter().map(|value| u64::from(value.to_bits())).collect(),
        DType::U8 => tensor.to_vec1::<u8>().unwrap().iter().map(|value| u64::from(*value)).collect(),
        DType::U32 => tensor.to_vec1::<u32>().unwrap().iter().map(|value| u64::from(*value)).collect(),
        DType::I64 => tensor.to_vec1::<i64>().unwrap().iter().map(|value| *value as u64).collect(),
        other => panic!("{other:?}"),
    }
}

/// The sum over ranks in the documented order: part r in the order r + 1, r + 2, …, r, each sum rounded to the format.
fn summed(size: usize, len: usize, format: DType) -> Vec<u64> {
    let all: Vec<Vec<u64>> = (0..size).map(|rank| bits(&tensor(rank, len, format))).collect();
    let add = |a: u64, b: u64| match format {
        DType::F32 => u64::from((f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits()),
        DType::F64 => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
        _ => u64::from((bf16::from_bits(a as u16) + bf16::from_bits(b as u16)).to_bits()),
    };
    let sum = |index: usize| {
        let part = index / len.div_ceil(size);
        let order = (1..=size).map(|places| all[(part + places) % size][index]);
        order.reduce(add).unwrap()
    };
    (0..len).map(sum).collect()
}

/// The program of a rank.
pub(crate) fn rank(job: &str) {
    let group = match TcpGroup::join(&ranks::env(), &ranks::options()) {
        Ok(group) => group,
        Err(error) => return report(error),
    };
    match job {
        "everything" => report(everything(&group).map_or_else(|error| error.to_string(), |()| "done".into())),
        "forever" => {
            report("joined");
            let buffer = tensor(group.rank(), 100_000, DType::F32);
            let error = loop {
                if let Err(error) = group.all_reduce(&buffer) {
                    break error;
                }
            };
            report(error);
            report(group.start(Collective::Barrier).unwrap_err());
        }
        "out-of-step" => {
            let odd = std::env::var("TEST_ODD").unwrap() == group.rank().to_string();
            let buffer = tensor(group.rank(), 12, DType::F32);
            let collective = if odd { Collective::Broadcast(buffer, 1) } else { Collective::AllReduce(buffer) };
            // The error can arrive while this rank is completing the barrier.
            let result = group.barrier().and_then(|()| group.start(collective)?.wait());
            report(result.unwrap_err());
        }
        "abort" => {
            // Fails the pending collective or the next one.
            let pending = group.start(Collective::Barrier);
            if group.rank() == 1 {
                group.abort("the disk is full");
            }
            report(pending.and_then(spag_dist::Pending::wait).and_then(|()| group.barrier()).unwrap_err());
        }
        "late" => {
            group.barrier().unwrap();
            if group.rank() == 2 {
                std::thread::sleep(Duration::from_secs(4));
            }
            report(group.barrier().unwrap_err());
        }
        "leave" => {
            group.barrier().unwrap();
            match ranks::env().rank {
                // Rank 2 leaves; the others start one more collective.
                2 => drop(group),
                _ => {
                    std::thread::sleep(Duration::from_millis(500));
                    report("still here");
                    report(group.barrier().unwrap_err());
                }
            }
            report("ended");
        }
        "nothing" => report("joined"),
        other => panic!("{other}"),
    }
}

/// Every collective with every format and length.
fn everything(group: &dyn ProcessGroup) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    for len in LENGTHS {
        for format in [DType::F32, DType::BF16, DType::F64] {
            let expected = summed(size, len, format);
            let buffer = tensor(rank, len, format);
            let before = group.traffic();
            group.all_reduce(&buffer)?;
            assert!(bits(&buffer) == expected, "all_reduce of {len} {format:?} on rank {rank}");
            if len % size == 0 {
                let after = group.traffic();
                let moved = (2 * (size - 1) * (len / size) * format.size_in_bytes()) as u64;
                assert_eq!(after.since(before), Traffic { sent: moved, received: moved, ..Traffic::default() });
                let buffer = tensor(rank, len, format);
                group.reduce_scatter(&buffer)?;
                let own = len / size * rank..len / size * (rank + 1);
                assert!(bits(&buffer)[own.clone()] == expected[own], "reduce_scatter of {len} {format:?} on {rank}");
            }
        }
        for format in [DType::F32, DType::BF16, DType::F64, DType::U8, DType::U32, DType::I64] {
            let part = |rank: usize| {
                let values: Vec<i64> = (0..len).map(|index| ((index * 7 + rank * 31) % 251) as i64).collect();
                Tensor::from_vec(values, len, &Device::Cpu).unwrap().to_dtype(format).unwrap().copy().unwrap()
            };
            let parts: Vec<Tensor> =
                (0..size).map(|of| if of == rank { part(of) } else { part(of).zeros_like().unwrap() }).collect();
            let buffer = Tensor::cat(&parts, 0)?;
            group.all_gather(&buffer)?;
            let expected: Vec<u64> = (0..size).flat_map(|of| bits(&part(of))).collect();
            assert!(bits(&buffer) == expected, "all_gather of {len} {format:?} on rank {rank}");
            for root in 0..size {
                let buffer = part(rank);
                group.broadcast(&buffer, root)?;
                assert!(bits(&buffer) == bits(&part(root)), "broadcast of {len} {format:?} from {root} to {rank}");
            }
        }
        let before = group.traffic();
        group.barrier()?;
        assert_eq!(group.traffic(), before, "a barrier moves no buffer");
    }
    // Many pending collectives on views of one storage, awaited in another order than started.
    let whole = tensor(rank, 40 * 1000, DType::F32);
    let views: Vec<Tensor> = (0..40).map(|view| whole.narrow(0, view * 1000, 1000)).collect::<Result<_, _>>()?;
    let pending: Vec<_> =
        views.iter().map(|view| group.start(Collective::AllReduce(view.clone()))).collect::<Result<_>>()?;
    pending.into_iter().rev().try_for_each(spag_dist::Pending::wait)?;
    let terms: Vec<Vec<f32>> = (0..size).map(|rank| tensor(rank, 40_000, DType::F32).to_vec1().unwrap()).collect();
    let close = |index: usize, sum: f32| {
        let expected: f64 = terms.iter().map(|terms| f64::from(terms[index])).sum();
        let scale: f64 = terms.iter().map(|terms| f64::from(terms[index].abs())).sum();
        (f64::from(sum) - expected).abs() <= scale * 1e-6
    };
    assert!(whole.to_vec1::<f32>()?.into_iter().enumerate().all(|(index, sum)| close(index, sum)));
    assert_eq!(gather_texts(group, &"x".repeat(rank))?.len(), size);
    agree(group, &[("batch", "7".into())])
}

fn all_report(launch: &Launch, expected: impl Fn(&str) -> bool) {
    let mut ranks = launch.start();
    for rank in &ranks {
        let message = rank.receive(LONG);
        assert!(expected(&message), "rank {} of {}: {message}", rank.rank, launch.size);
    }
    for rank in &mut ranks {
        assert!(rank.succeeds(LONG), "rank {}", rank.rank);
    }
    assert_eq!(launch.token_files(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn every_collective_is_correct_on_two_to_five_ranks() {
    for size in 2..=5 {
        all_report(&Launch::new("everything", size), |message| message == "done");
    }
}

#[test]
fn group_uses_the_port_after_torchruns_store() {
    let mut launch = Launch::new("everything", 2)
        .with("SPAG_TOKEN", "0123456789abcdef")
        .with("TORCHELASTIC_USE_AGENT_STORE", "True");
    launch.port = reserve_two_ports();
    let _store = std::net::TcpListener::bind(("127.0.0.1", launch.port)).unwrap();
    all_report(&launch, |message| message == "done");
}

#[test]
fn rank_that_starts_another_collective_is_named_on_every_rank() {
    for odd in 0..4 {
        let launch = Launch::new("out-of-step", 4).fast().with("TEST_ODD", odd);
        all_report(&launch, |message| {
            let named = match odd {
                // Ranks are compared with rank 0, so its next rank is named.
                0 => message.contains("is out of step"),
                _ => message.contains(&format!("rank {odd} is out of step")),
            };
            named
                && message.contains("collective 2")
                && message.contains("all_reduce of 12 f32")
                && message.contains("broadcast")
        });
    }
}

#[test]
fn rank_that_aborts_is_named_with_its_reason() {
    all_report(&Launch::new("abort", 3), |message| message == "rank 1 ended the run: the disk is full");
}

#[test]
fn rank_that_does_not_start_a_collective_is_named() {
    all_report(&Launch::new("late", 3).fast().with("TEST_COLLECTIVE_TIMEOUT", 1000), |message| {
        message.contains("lost rank 2") && message.contains("did not start barrier (number 2) within 1 s")
    });
}

#[test]
fn rank_that_leaves_fails_the_others_only_if_they_need_it() {
    let launch = Launch::new("leave", 3).fast();
    let mut ranks = launch.start();
    assert_eq!(ranks[2].receive(LONG), "ended");
    assert!(ranks[2].succeeds(LONG));
    for rank in &mut ranks[..2] {
        assert_eq!(rank.receive(LONG), "still here");
        let message = rank.receive(LONG);
        assert!(message.contains("lost rank 2") && message.contains("left after 1 collectives"), "{message}");
        assert_eq!(rank.receive(LONG), "ended");
        assert!(rank.succeeds(LONG));
    }
}

/// Sends a signal to a working rank; every other rank must name it.
fn loss_is_named(launch: Launch, gone: usize, signal: &str, timeout: Duration) {
    let mut ranks = launch.start();
    for rank in &ranks {
        assert_eq!(rank.receive(LONG), "joined");
    }
    std::thread::sleep(Duration::from_millis(300));
    ranks[gone].signal(signal);
    for rank in ranks.iter_mut().filter(|rank| rank.rank != gone) {
        for _ in 0..2 {
            let message = rank.receive(timeout);
            assert!(
                message.contains(&format!("lost rank {gone}")),
                "rank {} after {signal} of {gone}: {message}",
                rank.rank
            );
        }
        assert!(rank.succeeds(timeout));
    }
}

#[test]
fn killed_rank_is_named_on_every_rank() {
    for gone in 0..4 {
        loss_is_named(Launch::new("forever", 4).fast(), gone, "KILL", LONG);
    }
}

#[test]
fn stopped_rank_is_named_on_every_rank() {
    for gone in 0..3 {
        loss_is_named(Launch::new("forever", 4).fast(), gone, "STOP", LONG);
    }
}

#[test]
fn stopped_rank_is_named_within_30_seconds_by_default() {
    loss_is_named(Launch::new("forever", 3), 1, "STOP", Duration::from_secs(30));
}
