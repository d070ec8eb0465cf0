//! The whole loop in small, its settings and its report.

mod common;
mod config;
mod report;
mod run;
mod sources;
