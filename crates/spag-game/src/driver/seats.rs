//! The players of a run, and their open turns.

use std::time::{Duration, Instant};

use super::game::RunningGame;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::policy::{Policy, PollMode, Reply};
use crate::seat::{SEATS, Seat};

/// If polling both players takes less than this and returns nothing, both wait for something outside the process.
const IDLE_POLL: Duration = Duration::from_micros(200);
/// The pause after an idle poll, so that waiting for two remote players uses no CPU time.
const PAUSE: Duration = Duration::from_millis(1);

/// Which player has which seat.
pub enum Seats<'a> {
    /// One player in both seats.
    SelfPlay(&'a mut dyn Policy),
    /// A player for each seat, in the order of [`Labels::seats`].
    Versus([&'a mut dyn Policy; SEATS]),
}

impl Seats<'_> {
    /// Borrows the same players for a shorter time.
    pub fn reborrow(&mut self) -> Seats<'_> {
        match self {
            Self::SelfPlay(player) => Seats::SelfPlay(*player),
            Self::Versus([first, second]) => Seats::Versus([*first, *second]),
        }
    }
}

/// The seats of a player; `None` means both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held(Option<Seat>);

impl Held {
    pub(super) fn plays(self, seat: Seat) -> bool {
        self.0.is_none_or(|own| own == seat)
    }

    pub(super) fn name(self) -> String {
        match self.0 {
            None => "the player of both seats".to_owned(),
            Some(seat) => format!("{}'s player", seat.in_a_sentence()),
        }
    }
}

struct SeatedPlayer<'a> {
    held: Held,
    player: &'a mut dyn Policy,
    open_turns: usize,
}

/// The players with their numbers of open turns.
pub(super) struct SeatedPlayers<'a>(Vec<SeatedPlayer<'a>>);

impl<'a> SeatedPlayers<'a> {
    pub(super) fn new(seats: Seats<'a>, labels: &Labels) -> Self {
        let seated = |seat, player| SeatedPlayer { held: Held(seat), player, open_turns: 0 };
        Self(match seats {
            Seats::SelfPlay(player) => vec![seated(None, player)],
            Seats::Versus(players) => {
                labels.seats.into_iter().zip(players).map(|(seat, player)| seated(Some(seat), player)).collect()
            }
        })
    }

    /// Submits the next turn of a game.
    pub(super) fn submit(&mut self, game: &RunningGame<'_>) -> Result<()> {
        let (prompt, legal) = (game.prompt(), game.legal_actions());
        let turn = game.turn(&prompt, legal.as_deref());
        for seated in self.0.iter_mut().filter(|seated| seated.held.plays(turn.seat)) {
            let submitted = seated.player.submit(&turn);
            submitted.map_err(|source| Error::Submit { number: turn.number, seat: turn.seat, source })?;
            seated.open_turns += 1;
        }
        Ok(())
    }

    /// Returns the replies that are ready. Blocks only if one player has open turns and the other has none.
    pub(super) fn poll(&mut self) -> Result<Vec<(Held, Reply)>> {
        let began = Instant::now();
        let mut busy: Vec<&mut SeatedPlayer<'a>> = self.0.iter_mut().filter(|seated| seated.open_turns > 0).collect();
        let mode = if busy.len() == 1 { PollMode::Blocking } else { PollMode::NonBlocking };
        let mut all = Vec::new();
        for seated in &mut busy {
            let held = seated.held;
            let replies = seated.player.poll(mode).map_err(|source| Error::Poll { player: held.name(), source })?;
            seated.open_turns = seated.open_turns.saturating_sub(replies.len());
            all.extend(replies.into_iter().map(|reply| (held, reply)));
        }
        if all.is_empty() && mode == PollMode::NonBlocking && began.elapsed() < IDLE_POLL {
            std::thread::sleep(PAUSE);
        }
        Ok(all)
    }
}
