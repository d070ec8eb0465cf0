//! Who sits at the table, and who is to be asked when.

use std::time::{Duration, Instant};

use super::game::RunningGame;
use crate::episode::Role;
use crate::error::{Error, Result};
use crate::player::{Player, PollMode, Reply};
use crate::prompts::PromptSet;

/// A round of polls that brought nothing and took less time than this is one in which nobody computed: all wait.
const IDLE_ROUND: Duration = Duration::from_micros(200);
/// How long the driver rests then, so that waiting for two remote players costs no processor.
const REST: Duration = Duration::from_millis(1);

/// Who sits where.
pub enum Seats<'a> {
    /// One player in both seats.
    SelfPlay(&'a mut dyn Player),
    /// Two players.
    Versus {
        /// Plays the attacker.
        attacker: &'a mut dyn Player,
        /// Plays the defender.
        defender: &'a mut dyn Player,
    },
}

impl Seats<'_> {
    /// The same players, for a while.
    pub fn reborrow(&mut self) -> Seats<'_> {
        match self {
            Self::SelfPlay(player) => Seats::SelfPlay(*player),
            Self::Versus { attacker, defender } => Seats::Versus { attacker: *attacker, defender: *defender },
        }
    }
}

/// Who a reply came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    Both,
    Only(Role),
}

impl Seat {
    pub(super) fn speaks_for(self, role: Role) -> bool {
        self == Self::Both || self == Self::Only(role)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Both => "the player of both seats",
            Self::Only(Role::Attacker) => "the attacker's player",
            Self::Only(Role::Defender) => "the defender's player",
        }
    }
}

/// A player at the table.
struct Place<'a> {
    seat: Seat,
    player: &'a mut dyn Player,
    /// Turns that it has not answered yet.
    open: usize,
}

/// The players with the number of their open turns.
pub(super) struct Seating<'a>(Vec<Place<'a>>);

impl<'a> Seating<'a> {
    pub(super) fn new(seats: Seats<'a>) -> Self {
        let place = |seat, player| Place { seat, player, open: 0 };
        Self(match seats {
            Seats::SelfPlay(player) => vec![place(Seat::Both, player)],
            Seats::Versus { attacker, defender } => {
                vec![place(Seat::Only(Role::Attacker), attacker), place(Seat::Only(Role::Defender), defender)]
            }
        })
    }

    /// Asks for the next turn of a game.
    pub(super) fn ask(&mut self, game: &RunningGame, prompts: &PromptSet) -> Result<()> {
        let episode = game.episode();
        let prompt = prompts.playing_query(&episode.history, &episode.target_word, episode.max_turns);
        let turn = game.turn(&prompt);
        for place in self.0.iter_mut().filter(|place| place.seat.speaks_for(turn.role)) {
            place.player.submit(&turn).map_err(|source| Error::Player { game: turn.game, role: turn.role, source })?;
            place.open += 1;
        }
        Ok(())
    }

    /// Replies that have come. A player that alone has open turns may take its time; where both have some, neither
    /// waits while the other could go on.
    pub(super) fn poll(&mut self) -> Result<Vec<(Seat, Reply)>> {
        let began = Instant::now();
        let mut busy: Vec<&mut Place<'a>> = self.0.iter_mut().filter(|place| place.open > 0).collect();
        let mode = if busy.len() == 1 { PollMode::Blocking } else { PollMode::NonBlocking };
        let mut all = Vec::new();
        for place in &mut busy {
            let seat = place.seat;
            let replies = place.player.poll(mode).map_err(|source| Error::PlayerGone { who: seat.name(), source })?;
            place.open = place.open.saturating_sub(replies.len());
            all.extend(replies.into_iter().map(|reply| (seat, reply)));
        }
        if all.is_empty() && mode == PollMode::NonBlocking && began.elapsed() < IDLE_ROUND {
            std::thread::sleep(REST);
        }
        Ok(all)
    }
}
