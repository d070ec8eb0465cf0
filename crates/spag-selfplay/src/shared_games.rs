//! Games that several processes share through a queue of rank 0.

use std::collections::{BTreeMap, VecDeque};

use spag_dist::queue::{Assignment, Queue};
use spag_game::{FailedGame, FinishedGame, Game, GameSink, GameSpec, PlayConfig, Seats, play_games};

use crate::error::Result;

/// Plays games of `game` from `queue` until all ranks together have played all games.
///
/// The items of the queue are game numbers; games that are not in `missing` were finished before. A game is reported to the
/// queue after `sink` has taken it, finished or failed. The games of a dead rank are reassigned to the others.
///
/// # Errors
/// As [`play_games`], or the queue is lost.
pub(crate) fn play_shared(
    queue: &Queue,
    game: &dyn Game,
    missing: Vec<GameSpec>,
    mut seats: Seats<'_>,
    config: &PlayConfig,
    sink: &mut dyn GameSink,
) -> Result<()> {
    let missing: BTreeMap<usize, GameSpec> = missing.into_iter().map(|spec| (spec.number, spec)).collect();
    let at_a_time = config.games_in_flight.max(1);
    loop {
        // No game is in flight, so this waits for games of ranks that may still die.
        let mut games =
            QueuedGames { queue, missing: &missing, at_a_time, fetched: VecDeque::new(), more: true, lost: None };
        let Some(first) = games.next() else { return games.lost.map_or(Ok(()), |lost| Err(lost.into())) };
        games.fetched.push_front(first);
        let mut reporter = QueueReporter { queue, sink: &mut *sink, lost: None };
        play_games(game, &mut games, seats.reborrow(), config, &mut reporter)?;
        if let Some(lost) = reporter.lost.or(games.lost) {
            return Err(lost.into());
        }
        if !sink.should_continue() {
            return Ok(());
        }
    }
}

/// Fetches games from the queue on demand. Ends when the queue is empty for now.
struct QueuedGames<'a> {
    queue: &'a Queue,
    missing: &'a BTreeMap<usize, GameSpec>,
    at_a_time: usize,
    fetched: VecDeque<GameSpec>,
    more: bool,
    lost: Option<spag_dist::Error>,
}

impl QueuedGames<'_> {
    fn fetch(&mut self) -> spag_dist::Result<()> {
        while self.fetched.is_empty() && self.more {
            let Assignment::Items(items) = self.queue.next(self.at_a_time)? else {
                self.more = false;
                break;
            };
            let (to_play, played): (Vec<_>, Vec<_>) =
                items.into_iter().partition(|game| self.missing.contains_key(game));
            self.fetched.extend(to_play.iter().filter_map(|game| self.missing.get(game)).cloned());
            self.queue.done(&played)?;
        }
        Ok(())
    }
}

impl Iterator for QueuedGames<'_> {
    type Item = GameSpec;

    fn next(&mut self) -> Option<GameSpec> {
        if let Err(lost) = self.fetch() {
            self.lost = Some(lost);
            self.more = false;
        }
        self.fetched.pop_front()
    }
}

/// Passes games to a sink and reports them to the queue.
struct QueueReporter<'a> {
    queue: &'a Queue,
    sink: &'a mut dyn GameSink,
    lost: Option<spag_dist::Error>,
}

impl QueueReporter<'_> {
    fn done(&mut self, number: usize) {
        self.lost = self.queue.done(&[number]).err().or(self.lost.take());
    }
}

impl GameSink for QueueReporter<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        let number = game.number;
        self.sink.finished(game)?;
        self.done(number);
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        let number = game.number;
        self.sink.failed(game)?;
        self.done(number);
        Ok(())
    }

    fn should_continue(&mut self) -> bool {
        self.lost.is_none() && self.sink.should_continue()
    }
}
