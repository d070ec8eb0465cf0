//! The `spag-train` program: see `spag_cli::train`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::train::main()
}
