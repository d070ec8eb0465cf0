//! Kernels with one mistake each (`cuda/faulty.cu`): the emulator has to find it.

use std::process::Command;

use candle_core::{DType, Device, Result, Tensor};
use spag_emulator::Emulator;
use spag_model::kernels::{Arg, Kernels, Launch, Module};

/// Set where a test runs itself again and expects to be stopped.
const CHILD: &str = "SPAG_EMULATOR_CHILD";

/// The output of a kernel for `n` numbers from 1 on, with 64 threads.
fn run(emulator: &Emulator, kernel: &str, n: usize) -> Result<Vec<f32>> {
    let input = Tensor::arange(1f32, (n + 1) as f32, &Device::Cpu)?;
    let output = emulator.empty(&[n], DType::F32)?;
    emulator.launch(&Launch {
        module: Module { name: "faulty", ptx: "" },
        kernel: format!("faulty_{kernel}"),
        grid: [1, 1, 1],
        block: 64,
        shared_bytes: 256,
        args: &[Arg::In(&input), Arg::Out(&output), Arg::U32(n as u32)],
    })?;
    output.to_vec1()
}

fn error(kernel: &str, n: usize) -> String {
    match run(&Emulator::default(), kernel, n) {
        Ok(values) => panic!("{kernel} gave {values:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_right_kernel_passes_in_every_order() {
    let emulator = Emulator::default();
    for _ in 0..16 {
        assert_eq!(run(&emulator, "none", 5).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    }
    assert!(error("unknown", 5).contains("there is no kernel faulty_unknown"));
}

#[test]
fn an_element_that_is_never_written_is_not_a_number() {
    let values = run(&Emulator::default(), "gap", 5).unwrap();
    assert_eq!(values[..4], [1.0, 2.0, 3.0, 4.0]);
    assert!(values[4].is_nan());
}

#[test]
fn reading_past_the_end_stops_the_process() {
    if std::env::var_os(CHILD).is_some() {
        // Whole vectors of 16 bytes: the page that faults comes next.
        let _ = run(&Emulator::default(), "read", 8);
        return;
    }
    let name = "reading_past_the_end_stops_the_process";
    let child =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", name]).env(CHILD, "1").output().unwrap();
    assert_eq!(child.status.code(), Some(70));
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("kernel faulty_read reads or writes outside its memory"), "{said}");
}

#[test]
fn writing_beside_an_argument_is_found() {
    // Between the end of five elements and the page that faults there is room for three.
    assert!(error("write", 5).contains("writes beside argument 1"));
}

#[test]
fn writing_what_may_only_be_read_is_found() {
    assert!(error("input", 5).contains("writes to argument 0, which it may only read"));
}

#[test]
fn a_missed_barrier_is_found() {
    assert!(error("barrier", 5).contains("a barrier is missed"));
}

#[test]
fn lanes_at_different_operations_are_found() {
    assert!(error("lanes", 5).contains("different warp operations"));
}

#[test]
fn a_copy_that_is_not_waited_for_has_not_come() {
    assert!(run(&Emulator::default(), "copy", 16).unwrap().iter().all(|x| x.is_nan()));
}

#[test]
fn without_a_barrier_the_result_depends_on_the_order() {
    let emulator = Emulator::default();
    // Orders 0 and 2: the first warp before the second, and after it.
    let results: Vec<Vec<f32>> = (0..3).map(|_| run(&emulator, "race", 64).unwrap()).collect();
    let right = |half: &[f32], first: f32| half.iter().zip(0..).all(|(x, at)| *x == first + at as f32);
    let missing = |half: &[f32]| half.iter().all(|x| x.is_nan());
    assert!(missing(&results[0][..32]) && right(&results[0][32..], 1.0));
    assert!(right(&results[2][..32], 33.0) && missing(&results[2][32..]));
}
