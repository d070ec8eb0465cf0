//! Training: batches, losses, optimizers, schedules and the loop.
//!
//! ```no_run
//! use spag_io::Silent;
//! use spag_train::{TrainConfig, TrainJob, TrainMethod, run};
//!
//! # fn main() -> spag_train::Result<()> {
//! let config = TrainConfig { method: TrainMethod::SftWithKl, lm_kl_coeff: 0.1, ..TrainConfig::default() };
//! let job = TrainJob::new("data/tiny-llama", "train_imitation.json", "imitation", config);
//! let summary = run(&job, &mut Silent)?;
//! println!("{} steps, loss {} → {}", summary.steps, summary.first_loss, summary.last_loss);
//! # Ok(())
//! # }
//! ```

// ── Settings ──
mod config;
pub mod deepspeed;
mod error;
mod memory;

// ── From samples to gradients ──
mod adapted;
mod batch;
mod batch_sampler;
mod dataset;
mod encode;
mod evaluate;
mod game_groups;
pub mod loss;
mod reference;
mod row_origins;
mod step;
mod step_samples;
mod trajectory;

// ── The loop ──
mod joined_step;
mod learner;
mod load;
mod log_prob_gap;
mod offline;
mod online;
mod opening;
pub mod optimizer;
mod packing;
mod passes;
mod position;
mod schedule;
mod step_stats;
mod summary;
mod timing;
mod zero;

// ── Files ──
mod checkpoint;
mod finished;
mod job;
pub mod metrics;
mod tensorboard;

pub use adapted::LearnedWeights;
pub use batch::{Batch, BatchSample};
pub use checkpoint::{SavedRun, SavedState, checkpoint_folders, latest_checkpoint, remove_checkpoints_after};
pub use config::{
    DataOrder, FirstStepRate, IntervalStrategy, JobSettings, KeptBlocks, Optim, Packing, Placement, SchedulerType,
    ShardWithin, ShardingPlan, ShardingRequest, TargetModules, TrainConfig, TrainMethod, ZeroStage, limits,
};
pub use dataset::{CutSamples, Dataset};
pub use encode::encode;
pub use error::{Error, Result};
pub use job::{Start, TrainJob, run, run_on};
pub use learner::{Learner, ModelShard, StepRecord};
pub use load::RankLoad;
pub use log_prob_gap::LogProbGap;
pub use memory::{Beside, Fitted, PlannedRun, RankMemory, checkpoint_bytes, fit};
pub use metrics::{EvalRecord, ProcessMemory, Record, peak_memory_of};
pub use offline::{Observer, train_samples};
pub use online::{OnlineJob, OnlineLearner, ReferenceModel, on_policy_settings};
pub use position::{Position, StepLoss};
pub use reference::{add_reference, reference_log_probs};
pub use summary::TrainSummary;
pub use tensorboard::EventWriter;
pub use timing::{StepTiming, TimingConfig, median, time_steps, time_steps_of_rank};
pub use trajectory::{Span, Trajectory};
