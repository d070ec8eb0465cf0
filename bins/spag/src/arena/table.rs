//! Who sits at the table: two players at most, since the memory may not have room for all of them.

use spag_game::Seats;
use spag_selfplay::arena::{NamedPlayer, Pairing};

use spag_cli::{AnyPlayer, PlayerArgs, Result};

/// The players of the pairing that is played.
///
/// No more than two checkpoints are in memory at a time, each once: a game needs two, and what a third would take is
/// better spent on more games side by side. Who plays in the next pairing too stays, so in the order of
/// [`pairings`](spag_selfplay::arena::pairings) both seatings of a pair are played without loading anything again.
pub(super) struct Table<'a> {
    args: &'a PlayerArgs,
    players: &'a [NamedPlayer],
    /// The players of the pairing before, by their places in the list.
    seated: Vec<(usize, AnyPlayer)>,
    spent: Spent,
}

impl<'a> Table<'a> {
    pub(super) fn new(args: &'a PlayerArgs, players: &'a [NamedPlayer]) -> Self {
        Self { args, players, seated: Vec::new(), spent: Spent::default() }
    }

    /// Seats a pairing and lets it play; `play` also gets how many games it can play at a time.
    ///
    /// After an error the players are gone: they may have open turns left.
    pub(super) fn seat(&mut self, pairing: Pairing, play: impl FnOnce(Seats<'_>, usize) -> Result<()>) -> Result<()> {
        // Who leaves makes room before anybody else is loaded.
        self.seated.retain(|(player, _)| [pairing.attacker, pairing.defender].contains(player));
        let mut attacker = self.take(pairing.attacker)?;
        let mut defender = match pairing.attacker == pairing.defender {
            true => None,
            false => Some(self.take(pairing.defender)?),
        };
        let before = Spent::by(&attacker, defender.as_ref());
        let games = defender.iter().fold(attacker.games_at_a_time(), |games, d| games.min(d.games_at_a_time()));
        let seats = match &mut defender {
            None => Seats::SelfPlay(&mut attacker),
            Some(defender) => Seats::Versus { attacker: &mut attacker, defender },
        };
        play(seats, games)?;
        self.spent.add_since(before, Spent::by(&attacker, defender.as_ref()));
        self.seated.push((pairing.attacker, attacker));
        self.seated.extend(defender.map(|defender| (pairing.defender, defender)));
        Ok(())
    }

    /// What playing took so far.
    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// A player of the pairing before, or one that is loaded now.
    fn take(&mut self, player: usize) -> Result<AnyPlayer> {
        match self.seated.iter().position(|(seated, _)| *seated == player) {
            Some(at) => Ok(self.seated.swap_remove(at).1),
            None => self.args.open(&self.players[player].player),
        }
    }
}

/// What players did that a reader may want to know of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Prompts that were too long and lost their beginning.
    pub(super) cut_prompts: u64,
    /// Requests to endpoints, every try counted.
    pub(super) requests: u64,
    /// Those of them that were further tries.
    pub(super) retries: u64,
}

impl Spent {
    /// What these players did since they were loaded.
    fn by(attacker: &AnyPlayer, defender: Option<&AnyPlayer>) -> Self {
        let players = || std::iter::once(attacker).chain(defender);
        let cut_prompts = players().filter_map(AnyPlayer::generation).map(|stats| stats.truncated_prompts).sum();
        let mut all = Self { cut_prompts, ..Self::default() };
        for stats in players().filter_map(AnyPlayer::requests) {
            all.requests += stats.requests;
            all.retries += stats.retries;
        }
        all
    }

    /// Adds what came between `before` and `now`: players that stay at the table go on counting.
    fn add_since(&mut self, before: Self, now: Self) {
        self.cut_prompts += now.cut_prompts.saturating_sub(before.cut_prompts);
        self.requests += now.requests.saturating_sub(before.requests);
        self.retries += now.retries.saturating_sub(before.retries);
    }
}
