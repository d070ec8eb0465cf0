//! Games for language models, and the driver that plays many of them at once. No tensors.
//!
//! Modules import from floors below their own:
//!
//! | Floor | Modules |
//! |---|---|
//! | Reading names | `names`, `per_seat`, `per_ending` (keys and values of files), `session` (the protocol of `spag env`) |
//! | Games | `games`: one folder each; `declare`, `native` and `table` below them, `registry` and `open` above |
//! | Playing | `driver`, `record` |
//! | The seam | `game` and `replay`, `policy`, `reader` (files of episodes as games) |
//! | Records | `episode`, `transcript`, `tally` |
//! | Ground | `seat`, `ending`, `verdict`, `labels`, `message`, `spec`, `failure`, `generation`, `completion`, `error` |
#![doc = include_str!("../README.md")]

// ── Ground floor: names, seats and messages, without rules ──
mod completion;
mod ending;
mod error;
mod failure;
mod generation;
mod labels;
mod message;
mod seat;
mod spec;
mod verdict;

// ── What a game leaves behind ──
mod episode;
mod tally;
mod transcript;

// ── The seam: what a game and a player are ──
mod game;
mod policy;
mod reader;
mod replay;

// ── Playing ──
mod driver;
mod record;

// ── Games, and what reads their names ──
pub mod games;
mod names;
mod own_reasoning;
mod per_ending;
mod per_seat;
pub mod session;

pub use completion::UtteranceRule;
pub use driver::{CollectedGames, FailedGame, FinishedGame, GameSink, PlayConfig, Seats, play_games};
pub use ending::{DRAW, Ending, EndingLabel, INVALID, Play};
pub use episode::{Episode, EpisodeView, ReasoningEnd, Utterance, UtteranceView};
pub use error::{Error, Result};
pub use failure::{FailureCause, PolicyError, TurnFailure};
pub use game::{Game, Judge, Match, Refusal, Ruling};
pub use games::taboo::{
    self, AfterDecision, JudgeKind, PromptSet, Referee, Rules, Taboo, WordList, is_prediction, judge_episode,
    pluralize, read_words, word_forms,
};
pub use games::textarena::RecordedTextArena;
pub use games::{GameData, NamedGame, SeededGame, game_labels, open_game, parse_options};
pub use generation::{Generation, TokenRecords, TurnContext, UtteranceEnd};
pub use labels::{Labels, UtteranceKind};
pub use message::{Message, MessageKind, Sender};
pub use own_reasoning::with_own_reasoning;
pub use per_ending::PerEnding;
pub use per_seat::{AsSeat, OfSeat, PerSeat, SeatKey, SeatName};
pub use policy::{Policy, PollMode, Reply, Said, ScriptedPolicy, TurnRequest};
pub use rand::RngCore;
pub use reader::{EpisodeReader, read_episodes, read_games};
pub use record::GameRecord;
pub use replay::replay;
pub use seat::{SEATS, Seat};
pub use spec::{GameSpec, game_seed};
pub use tally::Tally;
pub use transcript::{Told, Transcript};
pub use verdict::Verdict;
