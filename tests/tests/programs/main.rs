//! The programs: their flags, files, messages and exit codes, and the layers of the workspace.

mod adapter_base;
mod adapter_flags;
mod bad_input;
mod bench_generate;
mod completions;
mod disk_faults;
mod early_stop;
mod env;
mod env_serve;
mod eval;
mod eval_contexts;
mod eval_games;
mod gguf;
mod hostile_flags;
mod layers;
mod merge;
mod no_threads;
mod plan;
mod plan_families;
mod provenance;
mod reference_commands;
mod reference_files;
mod reference_games;
mod show;
mod textarena;
mod unreadable_rows;
