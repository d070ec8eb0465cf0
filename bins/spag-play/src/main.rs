//! The `spag-play` program: see `spag_cli::play`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::play::main()
}
