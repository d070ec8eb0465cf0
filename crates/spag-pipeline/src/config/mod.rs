//! Configurations of runs and of base models.

mod base;
mod check;
mod controls;
mod evaluation;
mod games;
mod gpu;
mod inputs;
mod layers;
mod missing;
mod online;
mod online_choices;
mod online_policies;
mod online_signal;
mod play;
mod run;
mod sources;
mod train;

use std::path::Path;

use spag_game::PromptSet;
use spag_io::PromptFormat;
use spag_world::Lexicon;

use crate::error::Result;

pub use base::{
    BaseConfig, DocumentOrder, DocumentSettings, ProbeSettings, QuestionKind, ShapeSettings, TokenSplit,
    TokenizerSettings,
};
pub use controls::ControlArm;
pub use evaluation::{BenchmarkSettings, EvaluationSettings, HardwareSettings, MachineSettings, StopRules, WholeFor};
pub use games::RunGame;
pub use gpu::{Figures, Gpu};
pub(crate) use layers::read_toml;
pub use missing::MissingInput;
pub use online::{OnlineSettings, OpponentSettings, RunMethod};
pub use online_choices::{Control, EstimatorChoice, GapRule, Opponent, Policies, WordOrder};
pub use online_signal::{ReferenceSettings, SignalSettings};
pub use play::SelfPlaySettings;
pub use run::{RewardSettings, RunConfig};
pub(crate) use sources::endpoint;
pub use sources::{ImitationSettings, ImitationSource, ImitationSources, SftSettings, SftShare, Whole, WordSettings};
pub use train::TrainSettings;

/// The lexicon of a configuration, or the built-in one.
pub(crate) fn load_lexicon(path: Option<&Path>) -> Result<Lexicon> {
    Ok(path.map_or_else(Lexicon::embedded, Lexicon::load)?)
}

/// The prompt wordings of a configuration, or the built-in ones, in a format.
pub(crate) fn load_prompts(path: Option<&Path>, format: PromptFormat) -> Result<PromptSet> {
    Ok(path.map(PromptSet::load).transpose()?.unwrap_or_default().with_format(format))
}
