//! The players in memory: at most two.

use spag_selfplay::arena::{NamedPlayer, Pairing};
use spag_selfplay::{AnyPlayer, EndpointKeys, PlayerPair};

use spag_cli::{PlayerArgs, Result};

/// The players of the current pairing.
///
/// At most two checkpoints are in memory, each once, so that the rest of the memory holds concurrent games. A player of
/// the next pairing stays loaded: in the order of [`pairings`](spag_selfplay::arena::pairings), both assignments of roles
/// are played without loading again.
pub(super) struct Table<'a> {
    args: &'a PlayerArgs,
    players: &'a [NamedPlayer],
    keys: &'a EndpointKeys,
    /// The players of the last pairing, by index.
    seated: Vec<(usize, AnyPlayer)>,
    work: Work,
}

impl<'a> Table<'a> {
    pub(super) fn new(args: &'a PlayerArgs, players: &'a [NamedPlayer], keys: &'a EndpointKeys) -> Self {
        Self { args, players, keys, seated: Vec::new(), work: Work::default() }
    }

    /// Loads the players of a pairing and calls `play` with them.
    ///
    /// After an error the players are dropped, as they may have open turns.
    pub(super) fn seat(&mut self, pairing: Pairing, play: impl FnOnce(&mut PlayerPair) -> Result<()>) -> Result<()> {
        // Frees memory before another player is loaded.
        self.seated.retain(|(player, _)| pairing.0.contains(player));
        let [first, second] = pairing.0;
        let player = self.take(first)?;
        let mut pair = match first == second {
            true => PlayerPair::self_play(player),
            false => PlayerPair::versus(player, self.take(second)?),
        };
        let before = Work::by(&pair);
        play(&mut pair)?;
        self.work.add_since(before, Work::by(&pair));
        let (one, other) = pair.into_players();
        self.seated.push((first, one));
        self.seated.extend(other.map(|other| (second, other)));
        Ok(())
    }

    /// The work of all players so far.
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// A player of the last pairing, or one loaded now.
    fn take(&mut self, player: usize) -> Result<AnyPlayer> {
        match self.seated.iter().position(|(seated, _)| *seated == player) {
            Some(at) => Ok(self.seated.swap_remove(at).1),
            None => self.args.open(&self.players[player].player, self.keys),
        }
    }
}

/// The work of players that the arena reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Prompts that lost their beginning because they were too long.
    pub(super) truncated_prompts: u64,
    /// Requests to endpoints, retries included.
    pub(super) requests: u64,
    /// Retries among them.
    pub(super) retries: u64,
}

impl Work {
    /// The work of these players since they were loaded.
    fn by(players: &PlayerPair) -> Self {
        let truncated_prompts =
            players.iter().filter_map(AnyPlayer::generation).map(|stats| stats.truncated_prompts).sum();
        let mut all = Self { truncated_prompts, ..Self::default() };
        for stats in players.iter().filter_map(AnyPlayer::requests) {
            all.requests += stats.requests;
            all.retries += stats.retries;
        }
        all
    }

    /// Adds the work between `before` and `now`.
    fn add_since(&mut self, before: Self, now: Self) {
        self.truncated_prompts += now.truncated_prompts.saturating_sub(before.truncated_prompts);
        self.requests += now.requests.saturating_sub(before.requests);
        self.retries += now.retries.saturating_sub(before.retries);
    }
}
