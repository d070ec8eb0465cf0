//! The `spag` program: see `spag_cli::spag`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::spag::main()
}
