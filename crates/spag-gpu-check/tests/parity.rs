//! The reference implementation's fixtures with every op by its kernel, emulated.

use std::sync::Arc;

use spag_emulator::Emulator;
use spag_gpu_check::{Place, parity};
use spag_model::WeightDtype;
use spag_tests::fixture;

/// Few steps and few tokens: emulated, a step takes ten seconds. A GPU does them all.
fn place() -> Place {
    Place::emulated(Arc::new(Emulator::default()))
}

#[test]
fn training_in_f32() {
    for (method, steps) in parity::METHODS.into_iter().zip([1, 2]) {
        println!("{}: {}", method.0, parity::training(&place(), &fixture(""), method, WeightDtype::F32, steps));
    }
}

#[test]
fn training_in_bf16() {
    let offline_po = parity::METHODS[1];
    println!("{}", parity::training(&place(), &fixture(""), offline_po, WeightDtype::Bf16, 1));
}

#[test]
fn the_engine_gives_the_cpus_tokens() {
    spag_gpu_check::engine::check(&place(), &fixture(""));
}

#[test]
fn generation() {
    println!("{}", parity::generation(&place(), &fixture(""), WeightDtype::F32, 3, 12));
    println!("{}", parity::generation(&place(), &fixture(""), WeightDtype::Bf16, 3, 12));
}
