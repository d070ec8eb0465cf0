//! The flags of games.

use clap::Args;
use spag_game::{PlayConfig, PromptSet, UtteranceRule};
use spag_selfplay::{GameSettings, limits};

use crate::{PromptArgs, flags, prompts, sampling::TokenSource};

/// The flags of programs that play games on a list of words.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct GameArgs {
    /// Maximum number of turns in a game, at most 1000. A turn is one utterance of each player.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = flags::within(limits::TURNS), help_heading = "Games")]
    taboo_max_turns: usize,
    /// Stop after N consecutive failed games, so that a dead endpoint cannot exhaust the word list.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = flags::within(limits::FAILED_IN_A_ROW), help_heading = "Games")]
    max_failed_in_a_row: usize,
    /// The game and its rules.
    #[command(flatten)]
    pub rules: GameSettings,
    /// The prompts.
    #[command(flatten)]
    pub prompts: PromptArgs,
}

impl GameArgs {
    /// Turns of a game of Adversarial Taboo.
    pub fn taboo_max_turns(&self) -> usize {
        self.taboo_max_turns
    }

    /// Turns of a game.
    pub fn max_turns(&self) -> usize {
        self.rules.turns(self.taboo_max_turns)
    }

    /// The limits of a run.
    pub fn play_config(&self) -> PlayConfig {
        PlayConfig { max_failed_in_a_row: self.max_failed_in_a_row, ..PlayConfig::default() }
    }

    /// The game, its options and the prompts in records of games. A record without `utterances` has trimmed ones. The rule does not
    /// apply to endpoints.
    pub fn describe(&self, source: TokenSource, prompts: &PromptSet) -> String {
        Self::describe_game(&self.rules, source, prompts)
    }

    /// As [`GameArgs::describe`], of a game with these rules.
    pub fn describe_game(rules: &GameSettings, source: TokenSource, prompts: &PromptSet) -> String {
        let rule = match (source, prompts.utterance_rule()) {
            (TokenSource::Endpoints, _) | (TokenSource::Checkpoint, UtteranceRule::Trimmed) => String::new(),
            (TokenSource::Checkpoint, rule) => format!("; utterances={}", rule.name()),
        };
        format!("{}; prompts={}{rule}", rules.describe(), prompts::fingerprint(prompts))
    }
}
