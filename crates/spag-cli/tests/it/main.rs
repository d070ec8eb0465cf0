//! `spag data`, `spag-assign-rewards` and the programs that read models, as their users run them.

mod assign_rewards;
mod data;
mod hostile_models;
mod models;
mod streams;
