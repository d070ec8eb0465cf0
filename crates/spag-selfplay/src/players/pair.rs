//! The players of a run: one in both seats, or two.

use std::cell::Cell;

use spag_game::{Labels, Policy, PolicyError, PollMode, Reply, Seat, Seats, TurnRequest};

use super::AnyPlayer;
use crate::error::Result;
use crate::job::PlayerWork;

/// The players of a run: one in both seats, or two.
pub struct PlayerPair {
    first: AnyPlayer,
    /// `None`: the first player has both seats.
    second: Option<AnyPlayer>,
}

impl PlayerPair {
    /// One player in both seats.
    pub fn self_play(player: AnyPlayer) -> Self {
        Self { first: player, second: None }
    }

    /// Two players, in the order of the seats.
    pub fn versus(first: AnyPlayer, second: AnyPlayer) -> Self {
        Self { first, second: Some(second) }
    }

    /// The player of a seat.
    pub fn player(&self, seat: Seat) -> &AnyPlayer {
        self.second.as_ref().filter(|_| seat.index() > 0).unwrap_or(&self.first)
    }

    /// The players, each once.
    pub fn iter(&self) -> impl Iterator<Item = &AnyPlayer> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// The player of the first seat and, unless it has both, that of the second.
    pub fn into_players(self) -> (AnyPlayer, Option<AnyPlayer>) {
        (self.first, self.second)
    }

    /// The number of concurrent games: the minimum of all players.
    pub fn games_at_a_time(&self) -> usize {
        self.iter().map(AnyPlayer::games_at_a_time).min().unwrap_or(1)
    }

    /// The work of the players since they were opened, each with its seat: `both`, or a name of `labels`.
    pub fn work(&self, labels: &Labels) -> Vec<(&'static str, PlayerWork)> {
        match &self.second {
            None => vec![("both", self.first.work())],
            Some(second) => labels.seats.into_iter().map(Seat::name).zip([self.first.work(), second.work()]).collect(),
        }
    }

    /// Calls `play` with the players, who keep `new_tokens` at the tokens that they have generated since.
    pub(crate) fn seated<R>(&mut self, new_tokens: &Cell<u64>, play: impl FnOnce(Seats<'_>) -> Result<R>) -> Result<R> {
        let mut first = Metered::new(&mut self.first, new_tokens);
        match &mut self.second {
            None => play(Seats::SelfPlay(&mut first)),
            Some(second) => play(Seats::Versus([&mut first, &mut Metered::new(second, new_tokens)])),
        }
    }
}

/// A player that counts generated tokens while it plays.
struct Metered<'a> {
    player: &'a mut AnyPlayer,
    /// Its tokens that are counted.
    counted: u64,
    new_tokens: &'a Cell<u64>,
}

impl<'a> Metered<'a> {
    fn new(player: &'a mut AnyPlayer, new_tokens: &'a Cell<u64>) -> Self {
        let counted = player.work().new_tokens();
        Self { player, counted, new_tokens }
    }
}

impl Policy for Metered<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        self.player.submit(turn)
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PolicyError> {
        let replies = self.player.poll(mode)?;
        let now = self.player.work().new_tokens();
        self.new_tokens.set(self.new_tokens.get() + now.saturating_sub(self.counted));
        self.counted = now;
        Ok(replies)
    }
}
