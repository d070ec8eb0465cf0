//! The whole loop in small, its settings and its report.

mod common;
mod config;
mod games;
mod mixed_sources;
mod own_games;
mod report;
mod run;
mod sources;
