//! The flags of the page.

use std::path::PathBuf;

use clap::Args;
use spag_cli::{PromptArgs, Result, exit, flags};
use spag_game::{JudgeKind, WordList};
use spag_model::Sampling;
use spag_page::{Page, PageConfig};
use spag_selfplay::limits;
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
    #[arg(long, alias = "taboo_max_turns", value_name = "N", default_value_t = 5, value_parser = flags::whole(limits::TURNS), help_heading = "Page")]
    max_turns: usize,
    /// Sampling temperature of games; 0 is greedy.
    #[arg(long, value_name = "X", default_value_t = 1.2, value_parser = flags::within(limits::TEMPERATURE_OR_GREEDY), help_heading = "Page")]
    temperature: f64,
    /// In games, sample from the N most likely tokens; 0 means all tokens.
    #[arg(long, value_name = "N", default_value_t = Sampling::REFERENCE_TOP_K, value_parser = flags::whole(limits::TOP_K), help_heading = "Page")]
    top_k: usize,
    /// In games, sample from the smallest set of most likely tokens whose probabilities sum to at least X.
    #[arg(long, value_name = "X", value_parser = flags::share, help_heading = "Page")]
    top_p: Option<f64>,
    /// Maximum number of tokens in an utterance; also at most a quarter of the model's positions.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = flags::whole(limits::NEW_TOKENS), help_heading = "Page")]
    max_new_tokens: usize,
    /// Minimum number of tokens in an utterance.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = flags::whole(limits::MIN_NEW_TOKENS), help_heading = "Page")]
    min_new_tokens: usize,
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
        // Below the least temperature nothing but the most likely token is left.
        let sampling = match limits::TEMPERATURE.contains(&self.temperature) {
            false => Sampling::Greedy,
            true => Sampling::random(self.temperature, self.top_k, self.top_p),
        };
        Ok(Page::new(PageConfig {
            judge: self.judge,
            prompts: self.prompts.load()?,
            max_turns: self.max_turns,
            sampling,
            max_new_tokens: self.max_new_tokens,
            min_new_tokens: self.min_new_tokens,
            run: self.run.clone(),
            ..PageConfig::new(words)
        })?)
    }
}
