//! The flags of the page.

use std::path::PathBuf;

use clap::Args;
use spag_cli::{PromptArgs, Result, exit, flags};
use spag_game::{JudgeKind, WordList};
use spag_page::{Page, PageConfig};
use spag_selfplay::{LengthSettings, SamplingSettings, limits};
use spag_world::Lexicon;

/// The flags of the games at `/`. They do not change the API.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct PageArgs {
    /// Target words of the page, one per line [default: the words of the small world].
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    words: Option<PathBuf>,
    /// Folder of `spag run` whose games and report the page shows.
    #[arg(long, value_name = "DIR", help_heading = "Page")]
    run: Option<PathBuf>,
    #[command(flatten)]
    prompts: PromptArgs,
    /// Judge: paper (matches the target word anywhere in a word) or whole-word.
    #[arg(long, value_name = "JUDGE", default_value = "paper", help_heading = "Page")]
    judge: JudgeKind,
    /// Maximum number of turns in a game, at most 1000. A turn is one utterance of each player.
    #[arg(long, alias = "taboo_max_turns", value_name = "N", default_value_t = 5, value_parser = flags::within(limits::TURNS), help_heading = "Page")]
    max_turns: usize,
    #[command(flatten, next_help_heading = "Page")]
    sampling: SamplingSettings,
    #[command(flatten, next_help_heading = "Page")]
    length: LengthSettings,
}

impl PageArgs {
    /// Whether models need a chat template to play.
    pub(super) fn plays_in_chats(&self) -> bool {
        self.prompts.is_chat()
    }

    /// The page of these flags.
    ///
    /// # Errors
    /// A file cannot be read, or the run folder has no games.
    pub(super) fn page(&self) -> Result<Page> {
        let words = match &self.words {
            Some(path) => {
                let list = WordList::read(path)?;
                if !list.is_plain() {
                    exit::note(format_args!("note: {}: {list}", path.display()));
                }
                list.words
            }
            None => Lexicon::embedded()?.words().map(str::to_owned).collect(),
        };
        Ok(Page::new(PageConfig {
            judge: self.judge,
            prompts: self.prompts.load()?,
            max_turns: self.max_turns,
            sampling: self.sampling,
            length: self.length,
            run: self.run.clone(),
            ..PageConfig::new(words)
        })?)
    }
}
