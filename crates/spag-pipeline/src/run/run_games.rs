//! The games of a run with their items, opened.
//!
//! Each of several games has files of its own, in a folder of its name in that of each stage. So every file is of one game:
//! it resumes, is judged, credited and shown as in a run that plays this game alone.

use std::path::Path;
use std::sync::Arc;

use spag_game::{Game, PromptSet};
use spag_io::{Progress, quote};
use spag_selfplay::GameSettings;
use spag_world::Lexicon;

use super::stage_folder::StageFolder;
use super::words::Words;
use crate::config::{RunConfig, RunGame};
use crate::error::{Error, Result};

/// A game of a run.
pub(super) struct OpenGame {
    /// Its place in the configuration.
    index: usize,
    /// Its folder in that of each stage; none if it is the only game.
    folder: Option<String>,
    pub(super) rules: GameSettings,
    pub(super) game: Arc<dyn Game>,
    /// What its games are about.
    pub(super) words: Words,
}

impl OpenGame {
    /// Opens the games of a configuration. A list with repeated words or blank lines is shown.
    ///
    /// # Errors
    /// A file that cannot be read, a game or an option that does not exist, and words that do not fit the settings.
    pub(super) fn all(
        config: &RunConfig,
        prompts: &PromptSet,
        lexicon: Option<&Lexicon>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Self>> {
        let open = |(index, RunGame { folder, rules, data }): (usize, RunGame)| {
            let words = words(config, &rules, data.as_deref(), lexicon, progress)?;
            let game = rules.open(config.self_play.after_decision(), prompts, data.as_deref())?;
            Ok(Self { index, folder, rules, game, words })
        };
        config.run_games().into_iter().enumerate().map(open).collect()
    }

    /// The name of this game's folder in that of a stage; none if it is the only game.
    pub(super) fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    /// The folder of this game in that of a stage.
    pub(super) fn folder_in(&self, stage: &StageFolder) -> StageFolder {
        folder_in(self.folder.as_deref(), stage)
    }

    /// The name of a part of a stage, which its seed follows from.
    pub(super) fn part(&self, part: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{folder}/{part}"),
            None => part.to_owned(),
        }
    }

    /// The name of a stage for people.
    pub(super) fn title(&self, stage: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{stage} {folder}"),
            None => stage.to_owned(),
        }
    }

    /// A sentence about this game, after its name if it is one of several.
    pub(super) fn title_of(&self, sentence: String) -> String {
        match &self.folder {
            Some(folder) => format!("{folder}: {sentence}"),
            None => sentence,
        }
    }

    /// Its number of `total` games of all games of the run.
    pub(super) fn part_of(&self, config: &RunConfig, total: usize) -> usize {
        config.split_games(total).get(self.index).copied().unwrap_or_default()
    }
}

/// The folder of a game in that of a stage.
pub(super) fn folder_in(game: Option<&str>, stage: &StageFolder) -> StageFolder {
    match game {
        Some(game) => StageFolder::new(stage.file(game), &stage.name),
        None => stage.clone(),
    }
}

/// What the games are about: target words, of which some may be held out, or one empty item.
fn words(
    config: &RunConfig,
    rules: &GameSettings,
    file: Option<&Path>,
    lexicon: Option<&Lexicon>,
    progress: &mut dyn Progress,
) -> Result<Words> {
    let words: Vec<String> = match file {
        None if rules.has_items() => lexicon.into_iter().flat_map(Lexicon::words).map(str::to_owned).collect(),
        file => {
            let list = rules.items(file)?;
            if let Some(path) = file.filter(|_| !list.is_plain()) {
                progress.message(&format!("{}: {list}", path.display()));
            }
            list.words
        }
    };
    let bad = |setting, message| Error::BadSetting { setting, message };
    if words.is_empty() {
        return Err(bad("words.file", "the list has no words".to_owned()));
    }
    if let (true, true, Some(lexicon)) = (config.has_scripted_players(), rules.has_items(), lexicon) {
        check_known(&words, lexicon).map_err(|message| bad("words.file", message))?;
    }
    let count = words.len();
    let share = if rules.has_items() { config.words.holdout } else { 0.0 };
    let words = Words::split(words, share, config.seed);
    if words.training.is_empty() {
        return Err(bad("words.holdout", format!("it leaves none of {count} words to train on")));
    }
    Ok(words)
}

/// Checks that the scripted players can describe all words.
fn check_known(words: &[String], lexicon: &Lexicon) -> std::result::Result<(), String> {
    let unknown: Vec<&String> = words.iter().filter(|word| lexicon.get(word).is_none()).collect();
    let Some(first) = unknown.first() else { return Ok(()) };
    Err(format!(
        "the lexicon has no entry for {} of {} words, such as \"{}\", and the scripted players describe words by their \
         entries. Make a lexicon of your words with `spag data lexicon`, set `lexicon` to it and remove words.file \
         (the words of the lexicon are then played); or set imitation.source to \"self\", \"endpoint\", \"games\" or \
         \"samples\"",
        unknown.len(),
        words.len(),
        quote(first)
    ))
}
