//! The players of a run: one in both roles, or two.

use std::cell::Cell;

use spag_game::{Player, PlayerError, PollMode, Reply, Role, Seats, TurnRequest};

use super::AnyPlayer;
use crate::error::Result;
use crate::job::PlayerWork;

/// The players of a run: one in both roles, or two.
pub struct PlayerPair {
    attacker: AnyPlayer,
    /// `None`: the attacker plays both roles.
    defender: Option<AnyPlayer>,
}

impl PlayerPair {
    /// One player in both roles.
    pub fn self_play(player: AnyPlayer) -> Self {
        Self { attacker: player, defender: None }
    }

    /// Two players.
    pub fn versus(attacker: AnyPlayer, defender: AnyPlayer) -> Self {
        Self { attacker, defender: Some(defender) }
    }

    /// The player of a role.
    pub fn player(&self, role: Role) -> &AnyPlayer {
        match role {
            Role::Attacker => &self.attacker,
            Role::Defender => self.defender.as_ref().unwrap_or(&self.attacker),
        }
    }

    /// The players, each once.
    pub fn iter(&self) -> impl Iterator<Item = &AnyPlayer> {
        std::iter::once(&self.attacker).chain(&self.defender)
    }

    /// The attacker and, unless it plays both roles, the defender.
    pub fn into_players(self) -> (AnyPlayer, Option<AnyPlayer>) {
        (self.attacker, self.defender)
    }

    /// The number of concurrent games: the minimum of all players.
    pub fn games_at_a_time(&self) -> usize {
        self.iter().map(AnyPlayer::games_at_a_time).min().unwrap_or(1)
    }

    /// The work of the players since they were opened, each with its seat: `both`, `attacker` or `defender`.
    pub fn work(&self) -> Vec<(&'static str, PlayerWork)> {
        match &self.defender {
            None => vec![("both", self.attacker.work())],
            Some(defender) => vec![("attacker", self.attacker.work()), ("defender", defender.work())],
        }
    }

    /// Calls `play` with the players, who keep `new_tokens` at the tokens that they have generated since.
    pub(crate) fn seated<R>(&mut self, new_tokens: &Cell<u64>, play: impl FnOnce(Seats<'_>) -> Result<R>) -> Result<R> {
        let mut attacker = Metered::new(&mut self.attacker, new_tokens);
        match &mut self.defender {
            None => play(Seats::SelfPlay(&mut attacker)),
            Some(defender) => {
                let mut defender = Metered::new(defender, new_tokens);
                play(Seats::Versus { attacker: &mut attacker, defender: &mut defender })
            }
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

impl Player for Metered<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        self.player.submit(turn)
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PlayerError> {
        let replies = self.player.poll(mode)?;
        let now = self.player.work().new_tokens();
        self.new_tokens.set(self.new_tokens.get() + now.saturating_sub(self.counted));
        self.counted = now;
        Ok(replies)
    }
}
