//! All-reduce over a ring on the loopback interface, compared with copies of the same number of bytes.
//!
//! Ranks are threads, with the sockets and threads of real ranks. Throughput counts the bytes of one rank's buffer, so
//! the GB/s of all world sizes and of the copy are comparable.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup, TcpGroup, Token};

const SIZES: [usize; 3] = [1 << 20, 16 << 20, 64 << 20];
const RANKS: [usize; 2] = [2, 4];

/// The number of all-reduces, and the bytes of a buffer, for ranks other than 0.
type Rounds = (u64, usize);

fn join(rank: usize, size: usize, port: u16, token: &Token) -> TcpGroup {
    let env = LaunchEnv::on_this_machine(rank, size, port);
    let options = JoinOptions { token: Some(token.clone()), ..JoinOptions::default() };
    TcpGroup::join(&env, &options).expect("a free port and as many ranks")
}

fn buffer(bytes: usize) -> Tensor {
    Tensor::zeros(bytes / 4, DType::F32, &Device::Cpu).expect("memory")
}

fn all_reduces(group: &TcpGroup, (rounds, bytes): Rounds) -> Duration {
    let buffer = buffer(bytes);
    group.all_reduce(&buffer).expect("all ranks are there");
    let begin = Instant::now();
    for _ in 0..rounds {
        group.all_reduce(&buffer).expect("all ranks are there");
    }
    begin.elapsed()
}

fn ring(c: &mut Criterion) {
    let mut bench = c.benchmark_group("all_reduce");
    bench.sample_size(10);
    for size in RANKS {
        let port = spag_tests::reserve_port();
        let token = Token::random().expect("random numbers");
        let (senders, receivers): (Vec<Sender<Rounds>>, Vec<Receiver<Rounds>>) = (1..size).map(|_| channel()).unzip();
        std::thread::scope(|scope| {
            for (rank, rounds) in (1..size).zip(receivers) {
                let token = &token;
                scope.spawn(move || {
                    let group = join(rank, size, port, token);
                    for rounds in rounds {
                        // The time of rank 0 is reported.
                        let _ = all_reduces(&group, rounds);
                    }
                });
            }
            let group = join(0, size, port, &token);
            for bytes in SIZES {
                bench.throughput(Throughput::Bytes(bytes as u64));
                bench.bench_function(format!("{size} ranks/{} MiB", bytes >> 20), |b| {
                    b.iter_custom(|rounds| {
                        senders.iter().for_each(|sender| sender.send((rounds, bytes)).expect("the ranks are there"));
                        all_reduces(&group, (rounds, bytes))
                    });
                });
            }
            drop(senders);
        });
    }
    bench.finish();
}

fn copy(c: &mut Criterion) {
    let mut bench = c.benchmark_group("memcpy");
    for bytes in SIZES {
        let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
        bench.throughput(Throughput::Bytes(bytes as u64));
        bench.bench_function(format!("{} MiB", bytes >> 20), |b| {
            b.iter(|| std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from)));
        });
    }
    bench.finish();
}

criterion_group!(dist, ring, copy);
criterion_main!(dist);
