//! Games that several processes play together, handed out by rank 0.

use std::collections::{BTreeMap, VecDeque};

use spag_dist::queue::{Queue, Turn};
use spag_game::{FailedGame, FinishedGame, GameSink, GameSpec, PlayConfig, PromptSet, Seats, play_games};

use crate::error::Result;

/// Plays what `queue` hands out of the games of a run until all ranks together have played all of them.
///
/// An item of the queue is the number of a game. Those that are not `missing` are done already. A game is reported done
/// once `sink` has taken it, as finished or as failed; what a rank had when it died is played by others.
///
/// # Errors
/// As [`play_games`], or a queue that is lost.
pub fn play_shared(
    queue: &Queue,
    missing: Vec<GameSpec>,
    mut seats: Seats<'_>,
    prompts: &PromptSet,
    config: &PlayConfig,
    sink: &mut dyn GameSink,
) -> Result<()> {
    let missing: BTreeMap<usize, GameSpec> = missing.into_iter().map(|spec| (spec.game, spec)).collect();
    let at_a_time = config.games_in_flight.max(1);
    loop {
        // Nothing is in flight here: this waits while other ranks may still give something back.
        let mut begun = Pieces { queue, missing: &missing, at_a_time, here: VecDeque::new(), more: true, lost: None };
        let Some(first) = begun.next() else { return begun.lost.map_or(Ok(()), |lost| Err(lost.into())) };
        begun.here.push_front(first);
        let mut reporting = Reporting { queue, sink: &mut *sink, lost: None };
        play_games(&mut begun, seats.reborrow(), prompts, config, &mut reporting)?;
        if let Some(lost) = reporting.lost.or(begun.lost) {
            return Err(lost.into());
        }
        if !sink.should_continue() {
            return Ok(());
        }
    }
}

/// The games that this rank is given, a piece at a time, until there is nothing to be had for the moment.
struct Pieces<'a> {
    queue: &'a Queue,
    missing: &'a BTreeMap<usize, GameSpec>,
    at_a_time: usize,
    here: VecDeque<GameSpec>,
    more: bool,
    lost: Option<spag_dist::Error>,
}

impl Pieces<'_> {
    fn fetch(&mut self) -> spag_dist::Result<()> {
        while self.here.is_empty() && self.more {
            let Turn::Items(items) = self.queue.next(self.at_a_time)? else {
                self.more = false;
                break;
            };
            let (to_play, played): (Vec<_>, Vec<_>) =
                items.into_iter().partition(|game| self.missing.contains_key(game));
            self.here.extend(to_play.iter().filter_map(|game| self.missing.get(game)).cloned());
            self.queue.done(&played)?;
        }
        Ok(())
    }
}

impl Iterator for Pieces<'_> {
    type Item = GameSpec;

    fn next(&mut self) -> Option<GameSpec> {
        if let Err(lost) = self.fetch() {
            self.lost = Some(lost);
            self.more = false;
        }
        self.here.pop_front()
    }
}

/// Tells the queue what has been played.
struct Reporting<'a> {
    queue: &'a Queue,
    sink: &'a mut dyn GameSink,
    lost: Option<spag_dist::Error>,
}

impl Reporting<'_> {
    fn done(&mut self, game: usize) {
        self.lost = self.queue.done(&[game]).err().or(self.lost.take());
    }
}

impl GameSink for Reporting<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        let number = game.game;
        self.sink.finished(game)?;
        self.done(number);
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        let number = game.game;
        self.sink.failed(game)?;
        self.done(number);
        Ok(())
    }

    fn should_continue(&mut self) -> bool {
        self.lost.is_none() && self.sink.should_continue()
    }
}
