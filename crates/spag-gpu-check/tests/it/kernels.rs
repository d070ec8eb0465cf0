//! Runs every kernel check in the emulator.

use std::sync::Arc;

use spag_emulator::Emulator;
use spag_gpu_check::{Place, kernels};

#[test]
fn every_kernel_matches_its_cpu_version() {
    let only = std::env::var("KERNEL").ok();
    for (name, check) in kernels::ALL.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| *name == only)) {
        println!("{name}");
        check(&Place::emulated(Arc::new(Emulator::default())));
    }
}
