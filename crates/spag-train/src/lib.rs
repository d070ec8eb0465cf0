//! Training: batches, losses, AdamW, schedules and the loop.
//!
//! ```no_run
//! use spag_train::{Silent, TrainConfig, TrainJob, TrainMethod, run};
//!
//! # fn main() -> spag_train::Result<()> {
//! let summary = run(
//!     &TrainJob {
//!         model_name_or_path: "data/tiny-llama".into(),
//!         ref_model_name_or_path: None,
//!         train_data_path: vec!["train_imitation.json".into()],
//!         output_dir: "imitation".into(),
//!         config: TrainConfig { method: TrainMethod::SftWithKl, lm_kl_coeff: 0.1, ..TrainConfig::default() },
//!     },
//!     &mut Silent,
//! )?;
//! println!("{} steps, loss {} → {}", summary.steps, summary.first_loss, summary.last_loss);
//! # Ok(())
//! # }
//! ```

// ── What a run is told ──
mod config;
pub mod deepspeed;
mod error;

// ── From samples to gradients ──
mod batch;
mod encode;
pub mod loss;
mod order;
mod reference;

// ── The loop ──
mod job;
mod metrics;
mod optimizer;
mod progress;
mod schedule;
mod tensorboard;
mod trainer;

pub use batch::Batch;
pub use config::{DataOrder, SaveStrategy, SchedulerType, TrainConfig, TrainMethod};
pub use encode::{Encoded, encode};
pub use error::{Error, Result};
pub use job::{TrainJob, run};
pub use metrics::Record;
pub use optimizer::{AdamW, clip_factor, global_norm};
pub use order::Plan;
pub use progress::{Progress, Silent};
pub use reference::reference_log_probs;
pub use schedule::Schedule;
pub use tensorboard::EventWriter;
pub use trainer::{Observer, TrainSummary, train_samples};
