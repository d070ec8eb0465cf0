//! The emulator detects the bugs of the kernels in `cuda/faulty_warpgroups.cu`.

use candle_core::{DType, Device, Result, Tensor};
use spag_emulator::Emulator;
use spag_ops::kernels::{Arg, Kernels, Launch, Module};

const SIZE: usize = 64;

/// Four matrices of small integers, whose products are exact.
fn matrices() -> Vec<f32> {
    (0..4 * SIZE * SIZE).map(|at| ((at * at / 7 + 3 * at) % 13) as f32 - 6.0).collect()
}

fn run(emulator: &Emulator, kernel: &str) -> Result<Vec<f32>> {
    let input = Tensor::from_vec(matrices(), 4 * SIZE * SIZE, &Device::Cpu)?.to_dtype(DType::BF16)?;
    let output = emulator.empty(&[SIZE * SIZE], DType::F32)?;
    emulator.launch(&Launch {
        module: Module { name: "faulty", image: &[] },
        kernel: format!("faulty_products_{kernel}"),
        grid: [1, 1, 1],
        block: 256,
        shared_bytes: 2 * 2 * SIZE * SIZE + 16,
        args: &[Arg::In(&input), Arg::Out(&output)],
    })?;
    output.to_vec1()
}

/// The errors of launching a kernel, for every order of lanes and warps.
fn errors(kernel: &str) -> Vec<String> {
    let emulator = Emulator::default();
    let error = |_| match run(&emulator, kernel) {
        Ok(values) => panic!("{kernel} gave {:?}", &values[..8]),
        Err(error) => error.to_string(),
    };
    (0..4).map(error).collect()
}

fn assert_said(kernel: &str, parts: &[&str]) {
    for said in errors(kernel) {
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn correct_kernel_passes_in_every_order() {
    let (emulator, all) = (Emulator::default(), matrices());
    let at = |matrix: usize, row: usize, column: usize| all[(matrix * SIZE + row) * SIZE + column];
    let product = |a: usize, row: usize, column: usize| {
        (0..SIZE).map(|k| at(a, row, k) * at(a + 1, column, k)).sum::<f32>() + at(a + 1, row, column)
    };
    let want: Vec<f32> =
        (0..SIZE * SIZE).map(|i| product(0, i / SIZE, i % SIZE) + product(2, i / SIZE, i % SIZE)).collect();
    for _ in 0..16 {
        assert_eq!(run(&emulator, "none").unwrap(), want);
    }
}

#[test]
fn sums_are_not_there_before_the_wait() {
    let emulator = Emulator::default();
    for _ in 0..4 {
        assert!(run(&emulator, "unwaited").unwrap().iter().all(|x| x.is_nan()));
    }
    assert_said("pending", &["ended with products that it has not waited for"]);
    assert_said("changed", &["the left operand of a product was written before"]);
}

#[test]
fn buffers_are_left_after_their_products_and_read_after_their_copies() {
    assert_said("early", &["a race: ", "of shared memory", "no barrier between"]);
    assert_said("unreceived", &["a race: ", "of shared memory", "no barrier between"]);
}

#[test]
fn barriers_that_no_thread_can_pass_are_named() {
    assert_said(
        "kept",
        &["threads 0 to 127 wait for parity 0 of the barrier at byte 16392 of shared memory (0 of 4 arrivals)"],
    );
    assert_said("no_turn", &["threads 128 to 255 wait for turn 1"]);
}

#[test]
fn products_are_of_whole_warpgroups() {
    assert_said(
        "missed",
        &["threads 128 to 223 wait for the rest of their warpgroup at a product; threads 224 to 255 have ended"],
    );
    assert_said("different", &["threads of a warpgroup are at different products"]);
}

#[test]
fn products_need_their_fences() {
    assert_said("unfenced", &["a product without `begin`"]);
    assert_said("unshown", &["has not called show_to_products"]);
}
