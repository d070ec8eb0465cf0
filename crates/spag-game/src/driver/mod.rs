//! The driver: plays many games at once, each at its own pace, and asks the referee after every utterance.

mod game;
mod seats;
mod sink;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub use game::{AfterDecision, FailedGame, FinishedGame, GameSpec, game_seed};
pub use seats::Seats;
pub use sink::{CollectedGames, GameSink};

use crate::error::{Error, Result};
use crate::judge::JudgeKind;
use crate::player::Reply;
use crate::prompts::PromptSet;
use game::{RunningGame, Step};
use seats::Seating;

/// How games are played.
#[derive(Clone, Copy, Debug)]
pub struct PlayConfig {
    /// The rules.
    pub judge: JudgeKind,
    /// Games going on at a time; 0 is taken for 1.
    pub games_in_flight: usize,
    /// What happens once a game is decided.
    pub after_decision: AfterDecision,
    /// So many games failed in a row, with none finished in between, end the run: a player that is gone for good must
    /// not use all words up. 0 is taken for 1.
    pub max_failed_in_a_row: usize,
}

impl Default for PlayConfig {
    /// The paper's rules, 64 games at a time, each up to its decision; the run ends with the tenth failure in a row.
    fn default() -> Self {
        Self {
            judge: JudgeKind::default(),
            games_in_flight: 64,
            after_decision: AfterDecision::default(),
            max_failed_in_a_row: 10,
        }
    }
}

/// Plays `specs` with `games_in_flight` of them at a time, and hands each to `sink` the moment it ends.
///
/// Every running game has exactly one turn open; when its reply has come, its next turn is asked for at once. So games
/// wait for their own players only, and end in no particular order; what is said in one does not depend on the others.
/// A game that ends is replaced by the next of `specs`.
///
/// After an error, or where the sink wants no more, players may have open turns left: they are not to be used again.
///
/// # Errors
/// A player that fails for good or answers a turn that nobody asked it for, too many failed games in a row, an empty
/// target word, two games of one number at a time, or an error of `sink`.
pub fn play_games(
    specs: impl IntoIterator<Item = GameSpec>,
    seats: Seats<'_>,
    prompts: &PromptSet,
    config: &PlayConfig,
    sink: &mut dyn GameSink,
) -> Result<()> {
    let mut waiting = specs.into_iter();
    let mut seating = Seating::new(seats);
    let mut open: BTreeMap<usize, RunningGame> = BTreeMap::new();
    let mut to_ask: Vec<RunningGame> = Vec::new();
    let mut failed_in_a_row = 0;
    loop {
        while open.len() + to_ask.len() < config.games_in_flight.max(1) && sink.should_continue() {
            let Some(spec) = waiting.next() else { break };
            to_ask.push(RunningGame::begin(spec, config.judge)?);
        }
        for game in to_ask.drain(..) {
            if !sink.should_continue() {
                return Ok(());
            }
            match open.entry(game.number()) {
                Entry::Occupied(there) => return Err(Error::SameGame { game: *there.key() }),
                Entry::Vacant(place) => seating.ask(place.insert(game), prompts)?,
            }
        }
        if open.is_empty() || !sink.should_continue() {
            return Ok(());
        }
        for (seat, Reply { game: number, utterance }) in seating.poll()? {
            let Some(game) = open.remove(&number).filter(|game| seat.speaks_for(game.next_role())) else {
                return Err(Error::StrayReply { who: seat.name(), game: number });
            };
            match utterance {
                Err(failure) => {
                    let failed = game.fail(failure);
                    failed_in_a_row += 1;
                    let last =
                        Error::GameFailed { game: failed.game, role: failed.role, reason: failed.failure.to_string() };
                    sink.failed(failed)?;
                    if failed_in_a_row >= config.max_failed_in_a_row.max(1) {
                        return Err(Error::FailedInARow { count: failed_in_a_row, last: Box::new(last) });
                    }
                }
                Ok(text) => match game.hear(text, config.after_decision) {
                    Step::GoesOn(game) => to_ask.push(game),
                    Step::Over(finished) => {
                        failed_in_a_row = 0;
                        sink.finished(finished)?;
                    }
                },
            }
        }
    }
}
