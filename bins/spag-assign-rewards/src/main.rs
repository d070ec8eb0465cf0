//! The `spag-assign-rewards` program: see `spag_cli::assign_rewards`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::assign_rewards::main()
}
