//! The emulator detects the bugs of the kernels in `cuda/faulty.cu`.

use std::process::Command;

use candle_core::{DType, Device, Result, Tensor};
use spag_emulator::{Dry, Emulator};
use spag_ops::kernels::{Arg, Kernels, Launch, Module};

/// Set in the child process of a test that re-executes itself and expects the child to be killed.
const CHILD: &str = "SPAG_EMULATOR_CHILD";

/// The output of a kernel for the input 1..=n, with 64 threads.
fn run(emulator: &Emulator, kernel: &str, n: usize) -> Result<Vec<f32>> {
    run_from(emulator, kernel, &Tensor::arange(1f32, (n + 1) as f32, &Device::Cpu)?)
}

/// The output of a kernel for an input, with 64 threads.
fn run_from(emulator: &Emulator, kernel: &str, input: &Tensor) -> Result<Vec<f32>> {
    run_blocks(emulator, kernel, input, 1)
}

/// The output of a kernel for an input, with `blocks` of 64 threads.
fn run_blocks(emulator: &Emulator, kernel: &str, input: &Tensor, blocks: u32) -> Result<Vec<f32>> {
    let n = input.elem_count();
    let output = emulator.empty(&[n], DType::F32)?;
    emulator.launch(&Launch {
        module: Module { name: "faulty", image: &[] },
        kernel: format!("faulty_{kernel}"),
        grid: [blocks, 1, 1],
        block: 64,
        shared_bytes: 256,
        args: &[Arg::In(input), Arg::Out(&output), Arg::U32(n as u32)],
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
fn correct_kernel_passes_in_every_order() {
    let emulator = Emulator::default();
    for _ in 0..16 {
        assert_eq!(run(&emulator, "none", 5).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    }
    assert!(error("unknown", 5).contains("there is no kernel faulty_unknown"));
}

#[test]
fn arguments_of_other_types_are_refused() {
    let emulator = Emulator::default();
    let zeros = |dtype| Tensor::zeros(5, dtype, &Device::Cpu).unwrap();
    let (input, output, words) = (zeros(DType::F32), zeros(DType::F32), zeros(DType::U32));
    let refused = |args: &[Arg<'_>], passed: &str| {
        let module = Module { name: "faulty", image: &[] };
        let (kernel, grid) = ("faulty_none".to_owned(), [1, 1, 1]);
        let launch = Launch { module, kernel, grid, block: 64, shared_bytes: 0, args };
        let said = emulator.launch(&launch).unwrap_err().to_string();
        assert!(said.contains(&format!("passed ({passed}) for the parameters (fF4)")), "{said}");
    };
    refused(&[Arg::In(&words), Arg::Out(&output), Arg::U32(5)], "uF4");
    refused(&[Arg::In(&input), Arg::Out(&output), Arg::U64(5)], "fF8");
    refused(&[Arg::In(&input), Arg::Out(&output), Arg::F32(5.0)], "fF.");
    refused(&[Arg::In(&input), Arg::Out(&output), Arg::Null], "fF0");
    refused(&[Arg::In(&input), Arg::Out(&output)], "fF");
}

#[test]
fn launches_beyond_a_device_are_refused_dry() {
    let dry = Dry::with_shared_bytes(255);
    let tensor = dry.empty(&[5], DType::F32).unwrap();
    let args = [Arg::In(&tensor), Arg::Out(&tensor), Arg::U32(5)];
    let said = |grid, block, shared_bytes, args: &[Arg<'_>]| {
        let (module, kernel) = (Module { name: "faulty", image: &[] }, "faulty_none".to_owned());
        let result = dry.launch(&Launch { module, kernel, grid, block, shared_bytes, args });
        result.map_err(|error| error.to_string())
    };
    assert_eq!(said([1, 65_535, 1], 64, 255, &args), Ok(()));
    assert!(said([1, 65_536, 1], 64, 0, &args).unwrap_err().contains("a grid has at most"));
    assert!(said([1, 1, 1], 48, 0, &args).unwrap_err().contains("whole warps"));
    assert!(said([1, 1, 1], 64, 256, &args).unwrap_err().contains("at most 255 bytes"));
    assert!(said([1, 1, 1], 64, 0, &args[..2]).unwrap_err().contains("for the parameters (fF4)"));
}

#[test]
fn unwritten_element_is_nan() {
    let values = run(&Emulator::default(), "gap", 5).unwrap();
    assert_eq!(values[..4], [1.0, 2.0, 3.0, 4.0]);
    assert!(values[4].is_nan());
}

#[test]
fn read_past_the_end_stops_the_process() {
    if std::env::var_os(CHILD).is_some() {
        // Whole 16-byte vectors, so that the guard page follows immediately.
        let _ = run(&Emulator::default(), "read", 8);
        return;
    }
    let name = "read_past_the_end_stops_the_process";
    let child =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", name]).env(CHILD, "1").output().unwrap();
    assert_eq!(child.status.code(), Some(70));
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("kernel faulty_read reads or writes outside its memory"), "{said}");
}

#[test]
fn write_outside_an_argument_is_detected() {
    // Three more elements fit between the end of the five and the guard page.
    assert!(error("write", 5).contains("writes outside argument 1"));
}

#[test]
fn write_to_an_input_is_detected() {
    assert!(error("input", 5).contains("writes to argument 0, which it may only read"));
}

#[test]
fn unaligned_vector_is_detected_where_a_view_is_not_aligned() {
    let all = Tensor::arange(0f32, 16f32, &Device::Cpu).unwrap();
    let run = |first| run_from(&Emulator::default(), "vector", &all.narrow(0, first, 8).unwrap());
    assert_eq!(run(4).unwrap(), [4.0; 8]);
    let error = run(3).unwrap_err().to_string();
    assert!(error.contains("a vector of 16 bytes is not aligned"), "{error}");
}

#[test]
fn more_shared_memory_than_the_device_has_is_refused() {
    // The kernels of these tests request 256 bytes.
    let error = run(&Emulator::with_shared_bytes(255), "none", 5).unwrap_err().to_string();
    assert!(error.contains("at most 255 bytes"), "{error}");
    run(&Emulator::with_shared_bytes(256), "none", 5).unwrap();
}

#[test]
fn missed_barrier_is_detected() {
    assert!(error("barrier", 5).contains("a barrier is missed"));
}

#[test]
fn diverging_warp_operations_are_detected() {
    assert!(error("lanes", 5).contains("different warp operations"));
}

#[test]
fn copy_without_a_wait_has_no_effect() {
    assert!(run(&Emulator::default(), "copy", 16).unwrap().iter().all(|x| x.is_nan()));
}

/// In every order of warps and lanes; most of them give the right result.
#[test]
fn races_are_detected_in_every_order() {
    let input = Tensor::arange(0f32, 64f32, &Device::Cpu).unwrap();
    for kernel in ["race", "reuse", "warp"] {
        let emulator = Emulator::default();
        for _ in 0..16 {
            let said = run_from(&emulator, kernel, &input).unwrap_err().to_string();
            let numbers: Vec<u32> = said.split("thread ").skip(1).map(number).collect();
            assert!(said.contains(&format!("kernel faulty_{kernel} ")) && said.contains("of shared memory"), "{said}");
            let race = |a: u32, b: u32| if kernel == "warp" { a == b ^ 1 } else { a == (b + 32) % 64 };
            assert!(matches!(numbers[..], [a, b] if race(a, b)), "{said}");
        }
    }
}

#[test]
fn blocks_that_write_the_same_elements_are_detected() {
    let (emulator, input) = (Emulator::default(), Tensor::arange(0f32, 64f32, &Device::Cpu).unwrap());
    let mut both = [0; 2];
    for _ in 0..16 {
        run_blocks(&emulator, "blocks", &input, 1).unwrap();
        let said = run_blocks(&emulator, "blocks", &input, 3).unwrap_err().to_string();
        assert!(said.contains("writes byte ") && said.contains("of argument 1, which thread "), "{said}");
        let blocks: Vec<u32> = said.split("of block ").skip(1).map(number).collect();
        assert!(matches!(blocks[..], [a, b] if a != b), "{said}");
        both[usize::from(blocks[0] > blocks[1])] += 1;
    }
    assert!(both[0] > 0 && both[1] > 0, "blocks ran in one order");
}

#[test]
fn barriers_order_accesses() {
    let emulator = Emulator::default();
    for _ in 0..16 {
        let found = run(&emulator, "ordered", 64).unwrap();
        let want = (0..64u32).map(|at| ((at ^ 1) + 1 + (at + 32) % 64 + 1) as f32);
        assert!(found.into_iter().eq(want));
    }
}

/// The number at the start of a text.
fn number(text: &str) -> u32 {
    text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}
