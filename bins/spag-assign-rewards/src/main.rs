//! The `spag-assign-rewards` program: episodes of self-play into rewarded samples.

mod assign_rewards;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::exit::run(|| assign_rewards::run(std::env::args_os()))
}
