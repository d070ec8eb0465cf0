//! The `spag-play` program: two players, or one against itself, on a list of target words.

mod context;
mod error;
mod observer;
mod play;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::exit::run(|| play::run(std::env::args_os()))
}
