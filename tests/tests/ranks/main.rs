//! Runs on several ranks, under `spag launch` and under other launchers.
//!
//! The tests with Open MPI and torchrun are ignored by default; `-- --ignored` runs them.

mod hybrid;
mod launch;
mod launchers;
mod many_ranks;
mod online;
