//! The players of a run, and their open turns.

use std::time::{Duration, Instant};

use super::game::RunningGame;
use crate::episode::Role;
use crate::error::{Error, Result};
use crate::player::{Player, PollMode, Reply};
use crate::prompts::PromptSet;

/// If polling both players takes less than this and returns nothing, both wait for something outside the process.
const IDLE_POLL: Duration = Duration::from_micros(200);
/// The pause after an idle poll, so that waiting for two remote players uses no CPU time.
const PAUSE: Duration = Duration::from_millis(1);

/// Which player has which role.
pub enum Seats<'a> {
    /// One player in both roles.
    SelfPlay(&'a mut dyn Player),
    /// Two players.
    Versus {
        /// The attacker.
        attacker: &'a mut dyn Player,
        /// The defender.
        defender: &'a mut dyn Player,
    },
}

impl Seats<'_> {
    /// Borrows the same players for a shorter time.
    pub fn reborrow(&mut self) -> Seats<'_> {
        match self {
            Self::SelfPlay(player) => Seats::SelfPlay(*player),
            Self::Versus { attacker, defender } => Seats::Versus { attacker: *attacker, defender: *defender },
        }
    }
}

/// The roles of a player; `None` means both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat(Option<Role>);

impl Seat {
    pub(super) fn plays(self, role: Role) -> bool {
        self.0.is_none_or(|own| own == role)
    }

    pub(super) fn name(self) -> &'static str {
        match self.0 {
            None => "the player of both seats",
            Some(Role::Attacker) => "the attacker's player",
            Some(Role::Defender) => "the defender's player",
        }
    }
}

struct SeatedPlayer<'a> {
    seat: Seat,
    player: &'a mut dyn Player,
    open_turns: usize,
}

/// The players with their numbers of open turns.
pub(super) struct SeatedPlayers<'a>(Vec<SeatedPlayer<'a>>);

impl<'a> SeatedPlayers<'a> {
    pub(super) fn new(seats: Seats<'a>) -> Self {
        let seated = |role, player| SeatedPlayer { seat: Seat(role), player, open_turns: 0 };
        Self(match seats {
            Seats::SelfPlay(player) => vec![seated(None, player)],
            Seats::Versus { attacker, defender } => {
                vec![seated(Some(Role::Attacker), attacker), seated(Some(Role::Defender), defender)]
            }
        })
    }

    /// Submits the next turn of a game.
    pub(super) fn submit(&mut self, game: &RunningGame, prompts: &PromptSet) -> Result<()> {
        let episode = &game.episode;
        let prompt = prompts.playing_prompt(&episode.history, &episode.target_word, episode.max_turns);
        let turn = game.turn(&prompt, prompts.utterances());
        for seated in self.0.iter_mut().filter(|seated| seated.seat.plays(turn.role)) {
            let submitted = seated.player.submit(&turn);
            submitted.map_err(|source| Error::Submit { game: turn.game, role: turn.role, source })?;
            seated.open_turns += 1;
        }
        Ok(())
    }

    /// Returns the replies that are ready. Blocks only if one player has open turns and the other has none.
    pub(super) fn poll(&mut self) -> Result<Vec<(Seat, Reply)>> {
        let began = Instant::now();
        let mut busy: Vec<&mut SeatedPlayer<'a>> = self.0.iter_mut().filter(|seated| seated.open_turns > 0).collect();
        let mode = if busy.len() == 1 { PollMode::Blocking } else { PollMode::NonBlocking };
        let mut all = Vec::new();
        for seated in &mut busy {
            let seat = seated.seat;
            let replies = seated.player.poll(mode).map_err(|source| Error::Poll { player: seat.name(), source })?;
            seated.open_turns = seated.open_turns.saturating_sub(replies.len());
            all.extend(replies.into_iter().map(|reply| (seat, reply)));
        }
        if all.is_empty() && mode == PollMode::NonBlocking && began.elapsed() < IDLE_POLL {
            std::thread::sleep(PAUSE);
        }
        Ok(all)
    }
}
