//! What every stage plays with: words, wordings and the world.

use spag_game::PromptSet;
use spag_world::Lexicon;

use crate::config::RunConfig;
use crate::error::{Error, Result};

/// Words, wordings and lexicon of a run, read once.
pub(crate) struct Table {
    pub(crate) words: Vec<String>,
    pub(crate) prompts: PromptSet,
    pub(crate) lexicon: Lexicon,
}

impl Table {
    pub(crate) fn set(config: &RunConfig) -> Result<Self> {
        let lexicon = match &config.lexicon {
            Some(path) => Lexicon::load(path)?,
            None => Lexicon::embedded()?,
        };
        let prompts = match &config.prompts {
            Some(path) => PromptSet::load(path)?,
            None => PromptSet::default(),
        };
        let words: Vec<String> = match &config.words {
            Some(path) => spag_game::read_words(path)?,
            None => lexicon.words().map(str::to_owned).collect(),
        };
        if words.is_empty() {
            return Err(Error::BadSetting { setting: "words", message: "the list has no words".to_owned() });
        }
        // Scripted players know only the words of their world.
        if let Some(word) = words.iter().find(|word| lexicon.get(word).is_none()) {
            return Err(Error::BadSetting {
                setting: "words",
                message: format!("the lexicon has no entry for {word:?}, which the scripted players must describe"),
            });
        }
        Ok(Self { words, prompts, lexicon })
    }
}
