//! Games for language models, and the driver that plays many of them at once. No tensors.
#![doc = include_str!("../README.md")]

// ── The seam: what a game is ──
mod at_hand;
mod game;
mod labels;
mod per_ending;
mod per_seat;
mod seat;
mod tally;
mod verdict;

// ── Episodes ──
mod episode;
mod error;
mod generation;

// ── Playing ──
mod completion;
mod driver;
mod policy;
mod record;
mod replay;
mod transcript;

// ── Games ──
pub mod games;
pub mod session;

pub use completion::UtteranceRule;
pub use driver::{
    CollectedGames, FailedGame, FinishedGame, GameSink, GameSpec, PlayConfig, Seats, game_seed, play_games,
};
pub use episode::{Episode, EpisodeReader, EpisodeView, Utterance, UtteranceView, read_episodes, read_games};
pub use error::{Error, Result};
pub use game::{Game, Judge, Match, Refusal, Ruling};
pub use games::taboo::{
    self, AfterDecision, JudgeKind, Outcome, PromptSet, Referee, Rules, Taboo, WordList, is_prediction, judge_episode,
    pluralize, read_words, word_forms,
};
pub use games::textarena::RecordedTextArena;
pub use games::{GameData, Message, MessageKind, NamedGame, SeededGame, Sender, game_labels, open_game, parse_options};
pub use generation::{Generation, TokenRecords, TurnContext, UtteranceEnd};
pub use labels::{Labels, UtteranceKind};
pub use per_ending::PerEnding;
pub use per_seat::{AsSeat, OfSeat, PerSeat, SeatKey, SeatName};
pub use policy::{FailureCause, Policy, PolicyError, PollMode, Reply, Said, ScriptedPolicy, TurnFailure, TurnRequest};
pub use rand::RngCore;
pub use record::GameRecord;
pub use replay::replay;
pub use seat::{SEATS, Seat};
pub use tally::Tally;
pub use transcript::{Told, Transcript};
pub use verdict::{Ending, EndingLabel, Play, Verdict};
