//! The driver: plays many games at once, whichever [`Game`] they are of.

mod game;
mod seats;
mod sink;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub use seats::Seats;
pub use sink::{CollectedGames, FailedGame, FinishedGame, GameSink};

use crate::error::{Error, Result};
use crate::failure::FailureCause;
use crate::game::Game;
use crate::generation::TokenRecords;
use crate::policy::Reply;
use crate::spec::GameSpec;
use game::{RunningGame, Step};
use seats::SeatedPlayers;

/// How games are played.
#[derive(Clone, Copy, Debug)]
pub struct PlayConfig {
    /// Games played at a time; 0 means 1.
    pub games_in_flight: usize,
    /// Consecutive failed games that end the run, so that a dead endpoint cannot exhaust the word list; 0 means 1. Games
    /// whose text the player cannot read do not count.
    pub max_failed_in_a_row: usize,
    /// Whether utterances keep the tokens that a model generated.
    pub tokens: TokenRecords,
}

impl Default for PlayConfig {
    /// 64 games at a time; ends at the tenth failure in a row.
    fn default() -> Self {
        Self { games_in_flight: 64, max_failed_in_a_row: 10, tokens: TokenRecords::default() }
    }
}

/// Plays the games `specs` of `game`, `games_in_flight` at a time, and passes each game to `sink` when it ends.
///
/// Every running game has exactly one open turn; after its reply, its next turn is submitted at once. So a game waits
/// for its own players only, games end in any order, and utterances do not depend on other games. The next of `specs`
/// replaces a game that ends.
///
/// If this fails, or the sink stops it, players may have open turns left and must not be used again.
///
/// # Errors
/// A player fails or replies to a turn that is not open, too many games in a row fail, there is no game about an item, two
/// running games have the same number, or `sink` fails.
pub fn play_games(
    game: &dyn Game,
    specs: impl IntoIterator<Item = GameSpec>,
    seats: Seats<'_>,
    config: &PlayConfig,
    sink: &mut dyn GameSink,
) -> Result<()> {
    let mut specs = specs.into_iter().peekable();
    let mut players = SeatedPlayers::new(seats, game.labels());
    let mut open: BTreeMap<usize, RunningGame<'_>> = BTreeMap::new();
    let mut to_submit: Vec<RunningGame<'_>> = Vec::new();
    let mut failures = Failures { in_a_row: 0, most: config.max_failed_in_a_row.max(1) };
    loop {
        while open.len() + to_submit.len() < config.games_in_flight.max(1) && sink.should_continue() {
            let Some(spec) = specs.next() else { break };
            to_submit.push(RunningGame::new(spec, game)?);
        }
        for game in to_submit.drain(..) {
            if !sink.should_continue() {
                return Ok(());
            }
            if let Some(failure) = game.fault() {
                failures.add(game.fail(failure), sink)?;
                continue;
            }
            match open.entry(game.number()) {
                Entry::Occupied(entry) => return Err(Error::DuplicateGame { number: *entry.key() }),
                Entry::Vacant(entry) => players.submit(entry.insert(game))?,
            }
        }
        if !sink.should_continue() || (open.is_empty() && specs.peek().is_none()) {
            return Ok(());
        }
        if open.is_empty() {
            continue;
        }
        for (held, Reply { number, utterance }) in players.poll()? {
            let Some(game) = open.remove(&number).filter(|game| held.plays(game.to_move())) else {
                return Err(Error::UnexpectedReply { player: held.name(), number });
            };
            match utterance {
                Err(failure) => failures.add(game.fail(failure), sink)?,
                Ok(said) => match game.push_utterance(said, config.tokens) {
                    Step::Running(game) => to_submit.push(game),
                    Step::Finished(finished) => {
                        failures.in_a_row = 0;
                        sink.finished(finished)?;
                    }
                },
            }
        }
    }
}

/// Failed games since the last finished one.
struct Failures {
    in_a_row: usize,
    /// The number that ends the run.
    most: usize,
}

impl Failures {
    /// Passes a failed game to the sink.
    fn add(&mut self, failed: FailedGame, sink: &mut dyn GameSink) -> Result<()> {
        if failed.failure.cause() == FailureCause::Player {
            self.in_a_row += 1;
        }
        let last = Error::GameFailed { number: failed.number, seat: failed.seat, reason: failed.failure.to_string() };
        sink.failed(failed)?;
        if self.in_a_row >= self.most {
            return Err(Error::TooManyFailedGames { count: self.in_a_row, last: Box::new(last) });
        }
        Ok(())
    }
}
