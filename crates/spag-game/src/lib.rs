//! The game of Adversarial Taboo: rules, judges, episodes, prompts, players and the driver. No tensors.
//!
//! Attacker and defender alternate, the attacker first. The attacker alone knows the target word and wins if the
//! defender says it unknowingly; the defender wins by predicting it. Rules alone decide, by text:
//!
//! ```
//! use spag_game::{Episode, JudgeKind, Outcome, Role, judge_episode};
//!
//! # fn main() -> spag_game::Result<()> {
//! let mut episode = Episode::new("horse", 5);
//! episode.push(Role::Attacker, "Which animal do knights ride on?");
//! episode.push(Role::Defender, "I know the word! It is `horse`!");
//! let verdict = judge_episode(JudgeKind::Paper, &episode)?;
//! assert_eq!((verdict.outcome, verdict.history_length), (Outcome::DefenderWins, 2));
//! # Ok(())
//! # }
//! ```
//!
//! Many games are played at once by [`play_games`], between [`Player`]s that may be anything.

// ── The record of a game ──
mod episode;
mod error;
mod outcome;

// ── The rules ──
mod judge;
mod plural;

// ── Playing ──
mod driver;
mod player;
mod prompts;

// ── Files ──
mod io;
mod record;
mod view;

pub use driver::{
    AfterDecision, CollectedGames, FailedGame, FinishedGame, GameSink, GameSpec, PlayConfig, Seats, game_seed,
    play_games,
};
pub use episode::{Episode, Role, Utterance};
pub use error::{Error, Result};
pub use io::{EpisodeReader, parse_words, read_episodes, read_words};
pub use judge::{JudgeKind, Referee, Referees, is_prediction, judge_episode, word_forms};
pub use outcome::{Outcome, Verdict};
pub use player::{Player, PlayerError, PollMode, Reply, ScriptedPlayer, TurnFailure, TurnRequest};
pub use plural::pluralize;
pub use prompts::{JsonPrompts, PromptSet};
pub use record::GameRecord;
pub use view::{EpisodeView, JsonText, Line};
