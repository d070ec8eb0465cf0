//! Training: samples, steps, files and memory.

mod bf16_curves;
mod chat;
mod encode;
mod engine;
mod hybrid;
mod kernels;
mod learner;
mod lora;
mod memory;
mod optimizers;
mod parity;
mod passes;
mod quantised_base;
mod tensorboard;
mod training_fixture;

/// Counts every byte that is held, for the tests of memory.
#[global_allocator]
static HELD: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);
