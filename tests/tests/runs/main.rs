//! Runs: games, training and the whole loop, whole, interrupted and resumed.

mod arena;
mod chat;
mod families_loop;
mod hostile_training;
mod interrupted;
mod one_job;
mod paper_configs;
mod play_endpoint;
mod play_pool;
mod play_resumes;
mod run_endpoints;
mod the_loop;
mod training_resumes;
mod training_schedule;
