//! The `spag-train` program: imitation and offline policy optimisation with the reference's flags.

mod args;
mod train;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::exit::run(|| train::run(std::env::args_os()))
}
