//! Models of all families on emulated kernels.

use std::sync::Arc;

use spag_emulator::Emulator;
use spag_gpu_check::{Place, families};
use spag_model::WeightDtype;
use spag_tests::fixture;

/// Together they have everything that distinguishes a family.
const FAMILIES: [&str; 7] = ["qwen2", "qwen3", "mistral", "baichuan2-13b", "smollm", "olmo2", "gemma3"];

fn place() -> Place {
    Place::emulated(Arc::new(Emulator::default()))
}

#[test]
fn f32_gradients_equal_those_of_pytorch() {
    for family in FAMILIES {
        let folder = fixture("families").join(family);
        println!("{family}: {}", families::training(&place(), &folder, WeightDtype::F32));
    }
}

#[test]
fn bf16_gradients_are_near_those_of_pytorch() {
    for family in FAMILIES {
        let folder = fixture("families").join(family);
        println!("{family}: {}", families::training(&place(), &folder, WeightDtype::Bf16));
    }
}

#[test]
fn greedy_tokens_equal_the_cpus() {
    for family in FAMILIES {
        families::generation(&place(), &fixture("families").join(family), 4);
    }
}
