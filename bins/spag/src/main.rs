//! The `spag` program: the whole loop, and the tools around it, as subcommands.

mod arena;
mod bench;
mod check;
mod commands;
mod compare;
mod data;
mod env;
mod eval;
mod generate;
mod init_model;
mod launch;
mod make_base;
mod merge;
mod model_name;
mod network;
mod plan;
mod run;
mod serve;
mod show;
mod watch;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spag_cli::exit::run(|| commands::run(std::env::args_os()))
}
