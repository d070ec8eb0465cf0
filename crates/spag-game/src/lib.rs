//! Adversarial Taboo: rules, judges, episodes, prompts, players and the driver. No tensors.
#![doc = include_str!("../README.md")]

// ── Episodes ──
mod episode;
mod error;
mod generation;
mod outcome;

// ── Rules ──
mod judge;
mod plural;

// ── Playing ──
mod driver;
mod player;
mod prompts;

// ── Files ──
mod record;
mod words;

pub use driver::{
    AfterDecision, CollectedGames, FailedGame, FinishedGame, GameSink, GameSpec, PlayConfig, Seats, game_seed,
    play_games,
};
pub use episode::{Episode, EpisodeReader, EpisodeView, Role, Utterance, UtteranceView, read_episodes};
pub use error::{Error, Result};
pub use generation::{Generation, TokenRecords};
pub use judge::{JudgeKind, Referee, RefereeCache, is_prediction, judge_episode, word_forms};
pub use outcome::{Outcome, Verdict};
pub use player::{FailureCause, Player, PlayerError, PollMode, Reply, Said, ScriptedPlayer, TurnFailure, TurnRequest};
pub use plural::pluralize;
pub use prompts::{PromptSet, UtteranceRule};
pub use record::GameRecord;
pub use words::{WordList, read_words};
