//! The modelled process group: times, traffic and data.

use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Error, Link, Links, Pending, ProcessGroup, Simulated, Traffic, agree};

/// 1 MB/s: 0.1 s for 100 kB.
fn slow() -> Links {
    Links::uniform("slow", Link { bandwidth: 1e6, latency: Duration::ZERO })
}

fn zeros(bytes: usize) -> Tensor {
    Tensor::zeros(bytes / 4, DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn times_follow_the_ring_formulas() {
    let link = Link { bandwidth: 1e9, latency: Duration::from_micros(10) };
    let links = Links::uniform("one", link);
    let buffer = zeros(4_000_000);
    let micros = |collective| links.time(4, &collective).as_micros();
    assert_eq!(micros(Collective::ReduceScatter(buffer.clone())), 3 * 1010);
    assert_eq!(micros(Collective::AllGather(buffer.clone())), 3 * 1010);
    assert_eq!(micros(Collective::AllReduce(buffer.clone())), 6 * 1010);
    assert_eq!(micros(Collective::Broadcast(buffer.clone(), 2)), 4000 + 30);
    assert_eq!(micros(Collective::Barrier), 30);
    assert_eq!(links.time(1, &Collective::AllReduce(buffer)), Duration::ZERO);
}

#[test]
fn slower_link_bounds_steps_over_several_nodes() {
    let links = Links::dgx_a100();
    let buffer = zeros(16 << 20);
    let time = |size| links.time(size, &Collective::AllReduce(buffer.clone())).as_secs_f64();
    let bytes = f64::from(16 << 20);
    assert!((time(8) - 14.0 * (bytes / 8.0 / 300e9 + 3e-6)).abs() < 1e-6);
    assert!((time(16) - 30.0 * (bytes / 16.0 / 200e9 + 8e-6)).abs() < 1e-6);
}

#[test]
fn display_shows_the_assumptions() {
    let text = Links::dgx_a100().to_string();
    for part in
        ["8 × A100", "300 GB/s each way, 3 µs a hop within a node of 8 ranks", "200 GB/s each way", "data sheets"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(Links::dgx_h200().to_string().contains("450 GB/s") && Links::a100_pcie().to_string().contains("12.5 GB/s"));
    assert_eq!(slow().to_string().matches("GB/s").count(), 1);
}

/// How long it takes to start two all-reduces, to complete both while computing, and to complete a reduce-scatter.
fn measured() -> [Duration; 3] {
    let group = Simulated::new(2, slow());
    let begin = Instant::now();
    // 0.2 s each.
    let pending: Vec<Pending> = (0..2).map(|_| group.start(Collective::AllReduce(zeros(200_000))).unwrap()).collect();
    let started = begin.elapsed();
    std::thread::sleep(Duration::from_millis(300));
    pending.into_iter().for_each(|pending| pending.wait().unwrap());
    let both = begin.elapsed();
    // The links are idle now.
    let begin = Instant::now();
    group.reduce_scatter(&zeros(200_000)).unwrap();
    let one = begin.elapsed();
    // Two all-reduces of 200 kB over two ranks, and a reduce-scatter of half the traffic.
    assert_eq!(group.traffic(), Traffic { sent: 500_000, received: 500_000 });
    [started, both, one]
}

#[test]
fn computing_hides_communication_and_collectives_are_serial() {
    let ms = Duration::from_millis;
    // Other work of the machine only adds time, so one of several tries has to be fast.
    let mut tries = Vec::new();
    for _ in 0..20 {
        let [started, both, one] = measured();
        tries.push([started, both, one]);
        assert!(both >= ms(400) && one >= ms(100), "{tries:?}");
        // Starting does not wait.
        if started < ms(150) && both < ms(650) && one < ms(350) {
            return;
        }
    }
    panic!("too slow: {tries:?}");
}

#[test]
fn all_gather_copies_this_ranks_part_and_sums_change_nothing() {
    let group = Simulated::new(3, Links::dgx_a100());
    assert_eq!((group.rank(), group.size()), (0, 3));
    let buffer = Tensor::new(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &Device::Cpu).unwrap();
    group.all_reduce(&buffer).unwrap();
    group.reduce_scatter(&buffer).unwrap();
    group.broadcast(&buffer, 1).unwrap();
    assert_eq!(buffer.to_vec1::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    group.all_gather(&buffer).unwrap();
    assert_eq!(buffer.to_vec1::<f32>().unwrap(), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    group.barrier().unwrap();
    agree(&group, &[("seed", "7".into())]).unwrap();
    assert!(matches!(group.all_gather(&zeros(16)), Err(Error::Buffer { .. })));
    group.abort("enough");
    assert!(matches!(group.barrier(), Err(Error::Aborted { rank: 0, .. })));
}
