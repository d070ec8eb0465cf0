//! Compares emulated kernels with fixtures of the reference implementation.

use std::sync::Arc;

use spag_emulator::Emulator;
use spag_gpu_check::{Place, parity};
use spag_model::WeightDtype;
use spag_tests::fixture;

/// Few steps and tokens, because an emulated step takes ten seconds. On a GPU all are run.
fn place() -> Place {
    Place::emulated(Arc::new(Emulator::default()))
}

#[test]
fn f32_training_matches_the_reference() {
    for (method, steps) in parity::METHODS.into_iter().zip([1, 2]) {
        println!("{}: {}", method.0, parity::training(&place(), &fixture(""), method, WeightDtype::F32, steps));
    }
}

#[test]
fn bf16_training_matches_the_reference() {
    let offline_po = parity::METHODS[1];
    println!("{}", parity::training(&place(), &fixture(""), offline_po, WeightDtype::Bf16, 1));
}

#[test]
fn engine_tokens_equal_the_cpus() {
    spag_gpu_check::engine::check(&place(), &fixture(""));
}

#[test]
fn refreshed_engines_compute_as_new_ones() {
    spag_gpu_check::engine::refresh(&place(), &fixture(""));
}

#[test]
fn greedy_tokens_equal_the_reference() {
    println!("{}", parity::generation(&place(), &fixture(""), WeightDtype::F32, 3, 12));
    println!("{}", parity::generation(&place(), &fixture(""), WeightDtype::Bf16, 3, 12));
}
