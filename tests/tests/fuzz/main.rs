//! Mutated input for every parser: no panic, no abort, no unbounded memory or time.
//!
//! `cargo test` gives each parser three seconds. `scripts/fuzz.sh 3600` gives each an hour. The inputs depend on
//! `SPAG_FUZZ_SEED` alone, and a failure names the seed and leaves the input in `target/fuzz/`.

mod harness;
mod models;
mod mutation;
mod network;
mod text;
