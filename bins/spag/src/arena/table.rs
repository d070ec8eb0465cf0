//! The players in memory: at most two checkpoints, and the adapters of one.

use std::path::Path;

use spag_selfplay::arena::{NamedPlayer, Pairing};
use spag_selfplay::{AnyPlayer, EndpointKeys, PlayerPair, PlayerSpec};

use spag_cli::{PlayerArgs, Result, adapter_args};
use spag_io::PromptFormat;

/// The players of the current pairing.
///
/// At most two checkpoints are in memory, each once, so that the rest of the memory holds concurrent games. A player of
/// the next pairing stays loaded: in the order of [`pairings`](spag_selfplay::arena::pairings), both assignments of roles
/// are played without loading again. Players of a [league](in_league) are rows of one engine, which has their adapters.
pub(super) struct Table<'a> {
    args: &'a PlayerArgs,
    prompts: PromptFormat,
    players: &'a [NamedPlayer],
    keys: &'a EndpointKeys,
    /// The players of the last pairing, by index.
    seated: Vec<(usize, AnyPlayer)>,
    /// The model of the league that played last, which has the engine.
    base: Option<AnyPlayer>,
    work: Work,
}

/// The checkpoint of a player, if others are the same checkpoint with other adapters, or with none.
pub(super) fn in_league<'a>(players: &'a [NamedPlayer], player: &'a PlayerSpec) -> Option<&'a Path> {
    let (folder, _) = player.checkpoint()?;
    let others = || {
        players.iter().map(|other| &other.player).filter(|other| other.checkpoint().is_some_and(|it| it.0 == folder))
    };
    let adapted = others().any(|other| matches!(other, PlayerSpec::Adapted { .. }));
    (adapted && others().any(|other| other != player)).then_some(folder)
}

impl<'a> Table<'a> {
    pub(super) fn new(
        (args, prompts): (&'a PlayerArgs, PromptFormat),
        players: &'a [NamedPlayer],
        keys: &'a EndpointKeys,
    ) -> Self {
        Self { args, prompts, players, keys, seated: Vec::new(), base: None, work: Work::default() }
    }

    /// Loads the players of a pairing and calls `play` with them.
    ///
    /// After an error the players are dropped, as they may have open turns.
    pub(super) fn seat(&mut self, pairing: Pairing, play: impl FnOnce(&mut PlayerPair) -> Result<()>) -> Result<()> {
        // Frees memory before another player is loaded.
        self.seated.retain(|(player, _)| pairing.0.contains(player));
        let players = pairing.0.map(|player| &self.players[player].player);
        let leagues = players.map(|player| in_league(self.players, player));
        self.base = self.base.take().filter(|base| leagues.contains(&base.folder()));
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
            None => {
                let player = &self.players[player].player;
                match in_league(self.players, player) {
                    Some(folder) => self.member(player, folder),
                    None => self.args.open(player, self.keys, self.prompts),
                }
            }
        }
    }

    /// A player of a league, whose model is loaded once.
    fn member(&mut self, player: &PlayerSpec, folder: &Path) -> Result<AnyPlayer> {
        let base = match self.base.take().filter(|base| base.folder() == Some(folder)) {
            Some(base) => base,
            None => self.args.open(&PlayerSpec::Model(folder.to_owned()), self.keys, self.prompts)?,
        };
        let adapter = match player {
            PlayerSpec::Adapted { adapter, .. } => {
                Some((adapter.display().to_string(), adapter_args::read(adapter, folder)?))
            }
            _ => None,
        };
        let named = adapter.as_ref().map(|(name, adapter)| (name.as_str(), adapter));
        Ok(self.base.insert(base).beside(named)?)
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
        let mut all = Self::default();
        for (at, player) in players.iter().enumerate() {
            // The statistics of a shared engine are those of all its players.
            if players.iter().take(at).all(|before| !before.shares_engine(player)) {
                all.truncated_prompts += player.generation().map_or(0, |stats| stats.truncated_prompts);
            }
        }
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
