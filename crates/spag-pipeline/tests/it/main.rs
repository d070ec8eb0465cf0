//! The whole loop in small, its settings and its report.

mod common;
mod compare;
mod config;
mod controls;
mod games;
mod held_actions;
mod mixed_sources;
mod online;
mod online_seats;
mod own_games;
mod plan;
mod report;
mod run;
mod settings_page;
mod sources;
