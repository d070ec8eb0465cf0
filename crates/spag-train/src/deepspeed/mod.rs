//! The DeepSpeed JSON that `--deepspeed FILE` names: read, checked against the flags, and resolved.
//!
//! The file means here what it means under transformers' Trainer (4.37, `integrations/deepspeed.py`) and DeepSpeed
//! (<https://www.deepspeed.ai/docs/config-json/>):
//!
//! - `"auto"` takes a flag's value ([`Flags`]); the three bucket sizes come from the model's hidden size.
//! - A given value that contradicts a flag is an error, and so is whatever would be ignored although it asks for
//!   something: other optimizers, fp16, NVMe, quantised communication. All problems are reported at once.
//! - Reporting, profiling and tuning of DeepSpeed's own workings is accepted and has no influence.
//!
//! Stricter than DeepSpeed: an unknown key is an error. Different in one point: a key that repeats a flag and is left
//! out takes the flag's value, as if it were `"auto"`, and not DeepSpeed's default (no clipping, a rate of 1e-3).
//!
//! ```no_run
//! use spag_train::deepspeed::{DeepSpeed, Flags};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let flags = Flags { hidden_size: 4096, total_steps: 1000, ..Flags::default() };
//! let settings = DeepSpeed::load("configs/default_offload_opt_param.json".as_ref(), &flags)?;
//! println!("ZeRO stage {}", u8::from(settings.zero_optimization.stage));
//! println!("{}", serde_json::to_string_pretty(&settings)?);
//! # Ok(())
//! # }
//! ```

mod asks;
mod checks;
mod error;
mod flags;
mod json;
mod keys;
mod load;
mod reader;
mod resolve;
mod scheduler;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub use crate::config::ZeroStage;
pub use error::{DeepSpeedError, Problem};
pub use flags::Flags;
pub use scheduler::{Scheduler, SchedulerParams, WarmupType};
pub use settings::{AdamWParams, DeepSpeed, Device, Offload, Optimizer, Switch, Zero};
