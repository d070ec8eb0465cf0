//! Configurations: what can be typed, and what it resolves to.

mod base;
mod layers;
mod paths;
mod run;
mod sections;

pub use base::{BaseConfig, DocumentSettings, ProbeSettings, ShapeSettings, TokenizerSettings};
pub use run::RunConfig;
pub use sections::{EvaluationSettings, ImitationSettings, RewardSettings, SelfPlaySettings, SftSettings};
