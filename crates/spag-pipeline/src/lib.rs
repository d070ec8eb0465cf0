//! The whole loop: base → imitation → rounds of self-play, credit assignment and training → evaluation → report.
//!
//! `spag run CONFIG.toml` is [`RunConfig::load`], [`run()`] and [`render_text`]; `spag make-base CONFIG.toml` is
//! [`BaseConfig::load`] and [`make_base`].
//!
//! ```no_run
//! use spag_pipeline::{RunConfig, render_text, run};
//! use spag_io::Silent;
//!
//! # fn main() -> spag_pipeline::Result<()> {
//! let config = RunConfig::load("configs/tiny.toml", &["run_dir=runs/short".into(), "epochs=1".into()])?;
//! let report = run(&config, &mut Silent)?;
//! println!("{}", render_text(&report));
//! # Ok(())
//! # }
//! ```

// ── Configuration ──
mod config;
mod error;
mod seeds;

// ── The loop ──
mod run;

// ── Before it ──
mod plan;

// ── Results ──
mod play_stats;
mod report;

// ── The base model ──
mod base;

pub use base::{BaseQuality, BaseReport, WorldQuality, make_base};
pub use config::{
    BaseConfig, BenchmarkSettings, Control, ControlArm, DocumentOrder, DocumentSettings, EstimatorChoice,
    EvaluationSettings, Figures, GapRule, Gpu, HardwareSettings, ImitationSettings, ImitationSource, ImitationSources,
    MachineSettings, MissingInput, OnlineSettings, Opponent, OpponentSettings, Policies, ProbeSettings, QuestionKind,
    ReferenceSettings, RewardSettings, RunConfig, RunGame, RunMethod, SelfPlaySettings, SftSettings, SftShare,
    ShapeSettings, SignalSettings, StopRules, TokenSplit, TokenizerSettings, TrainSettings, Whole, WholeFor, WordOrder,
    WordSettings,
};
pub use error::{Error, Result};
pub use plan::{PLANNED_LENGTH, PlanFile, PlannedFlags, PlannedModel, PlannedSamples, TrainingPlan, plan_of_run};
pub use play_stats::PlayStats;
pub use report::{
    Arm, ExactPlay, GameReport, HeldOut, ImitationPart, LossCurve, LossPoint, MatchReport, NamedPlay, Report, Round,
    RoundGames, RoundTraining, SamplePair, ShownGame, ShownUtterance, StageSeconds, UpdatePoint, arms_document,
    arms_warnings, read_arms, render_arms, render_summary, render_text, report_document,
};
pub use run::{
    DiskPlan, Ended, OnlineMemory, OnlineParts, PlannedStage, PlannedTraining, RunMeasure, RunPlan, SAMPLES_PER_GAME,
    measure_run, plan_run, plan_run_without, run, run_on, run_with_controls,
};
