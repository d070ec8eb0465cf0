//! The game of a file of episodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use spag_game::{EpisodeReader, Game, JudgeKind, PromptSet, Rules, open_game};

use crate::Result;

/// The flags of programs that read games. Which game they are of is in the file.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct RecordedGameArgs {
    /// Judge of taboo: paper (matches the target word anywhere in a word) or whole-word.
    #[arg(long, value_name = "JUDGE", default_value = "paper")]
    judge: JudgeKind,
    /// The file of words or facts that games were played with, if they are of a game that needs one.
    #[arg(long, value_name = "FILE")]
    game_data: Option<PathBuf>,
}

impl RecordedGameArgs {
    /// The game of the episodes in `file`. Adversarial Taboo is worded by `prompts`.
    ///
    /// # Errors
    /// The file cannot be read; its game is unknown or needs another file.
    pub fn open(&self, file: &Path, prompts: &PromptSet) -> Result<Arc<dyn Game>> {
        self.game_of(&mut EpisodeReader::open(file)?, prompts)
    }

    /// The file of the flag `--game_data`.
    pub fn data(&self) -> Option<&Path> {
        self.game_data.as_deref()
    }

    /// The game of the episodes of a reader, as [`RecordedGameArgs::open`].
    ///
    /// # Errors
    /// The game is unknown or needs a file.
    pub fn game_of(&self, episodes: &mut EpisodeReader, prompts: &PromptSet) -> Result<Arc<dyn Game>> {
        match episodes.game() {
            Some((name, options)) => Ok(open_game(&name, &options, self.game_data.as_deref(), prompts.format())?),
            None => Ok(Arc::new(Rules { judge: self.judge, ..Rules::default() }.game(prompts))),
        }
    }
}
