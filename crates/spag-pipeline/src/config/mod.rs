//! Configurations of runs and of base models.

mod base;
mod layers;
mod run;
mod sections;

use std::path::Path;

use spag_game::PromptSet;
use spag_world::Lexicon;

use crate::error::Result;

pub use base::{BaseConfig, DocumentSettings, ProbeSettings, ShapeSettings, TokenizerSettings};
pub use layers::read_toml;
pub use run::RunConfig;
pub use sections::{EvaluationSettings, ImitationSettings, RewardSettings, SelfPlaySettings, SftSettings};

/// The lexicon and the prompt wordings of a configuration, or the built-in ones.
pub(crate) fn load_world(lexicon: Option<&Path>, prompts: Option<&Path>) -> Result<(Lexicon, PromptSet)> {
    let lexicon = lexicon.map_or_else(Lexicon::embedded, Lexicon::load)?;
    let prompts = prompts.map(PromptSet::load).transpose()?.unwrap_or_default();
    Ok((lexicon, prompts))
}
