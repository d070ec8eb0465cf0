//! What all native games share of a match in progress: messages, turns, refusals and the end.

use std::fmt::Display;

use crate::ending::{Ending, INVALID};
use crate::game::Refusal;
use crate::message::{Message, MessageKind, Sender};
use crate::seat::{SEATS, Seat};
use crate::verdict::Verdict;

/// A match in progress, without what is a game's own.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    seats: [Seat; SEATS],
    messages: Vec<Message>,
    /// Who moves.
    player: usize,
    /// Who moves next if the action of this step is accepted.
    next: usize,
    /// Accepted actions.
    turn: usize,
    /// All actions, also refused ones.
    actions: usize,
    /// Refusals that a player may have within a turn without losing.
    allowance: u32,
    refusals: u32,
    /// The last refusal of this step.
    refused: Option<Refusal>,
    end: Option<(Ending, Option<usize>)>,
    /// What each player has won or lost, in a game that counts it.
    amounts: Option<[i64; SEATS]>,
}

impl Table {
    pub(crate) fn new(seats: [Seat; SEATS], allowance: u32) -> Self {
        Self {
            seats,
            messages: Vec::new(),
            player: 0,
            next: 0,
            turn: 0,
            actions: 0,
            allowance,
            refusals: 0,
            refused: None,
            end: None,
            amounts: None,
        }
    }

    /// Who moves.
    pub(crate) fn player(&self) -> usize {
        self.player
    }

    pub(crate) fn seat(&self) -> Seat {
        self.seats[self.player]
    }

    /// Accepted actions before this one.
    pub(crate) fn turn(&self) -> usize {
        self.turn
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The last refusal of this step.
    pub(crate) fn refused(&self) -> Option<Refusal> {
        self.refused
    }

    /// The end, once the game is over.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let (ending, winner) = self.end?;
        let mut verdict = match winner {
            Some(winner) => Verdict::won_by(self.seats[winner], ending, self.actions),
            None => Verdict::of(ending, self.actions),
        };
        verdict.amounts = self.amounts.filter(|_| ending != INVALID);
        Some(verdict)
    }

    /// A message of the game to both players.
    pub(crate) fn tell(&mut self, kind: MessageKind, text: String) {
        self.messages.push(Message { to: None, from: Sender::Game, kind, text });
    }

    /// A message of the game to one player.
    pub(crate) fn tell_only(&mut self, player: usize, kind: MessageKind, text: String) {
        self.messages.push(Message { to: Some(self.seats[player]), from: Sender::Game, kind, text });
    }

    /// Starts a step: the other player is next, and both players see the text of the one that moves.
    pub(crate) fn begin_step(&mut self, text: String) {
        (self.next, self.refused) = (1 - self.player, None);
        self.actions += 1;
        let from = Sender::Player(self.seat());
        self.messages.push(Message { to: None, from, kind: MessageKind::Action, text });
    }

    /// Ends a step: unless its action was refused, the turn passes.
    pub(crate) fn end_step(&mut self) {
        if self.refused.is_none() {
            (self.player, self.refusals) = (self.next, 0);
            self.turn += 1;
        }
    }

    /// The player that moves next, at the start or after this action.
    pub(crate) fn pass_to(&mut self, player: usize) {
        self.next = player;
    }

    /// The player that moves first.
    pub(crate) fn begin_with(&mut self, player: usize) {
        self.player = player;
    }

    /// Refuses the action, or part of it. Beyond the allowance the player loses.
    pub(crate) fn refuse(&mut self, refusal: Refusal, why: impl Display) {
        self.refused = Some(refusal);
        if self.refusals >= self.allowance {
            self.end = Some((INVALID, Some(1 - self.player)));
            return;
        }
        self.refusals += 1;
        let text = format!("Player {}, this action is refused: {why} Try again.", self.player);
        self.tell_only(self.player, MessageKind::Admin, text);
    }

    /// Notes what each player has won or lost.
    pub(crate) fn count(&mut self, amounts: [i64; SEATS]) {
        self.amounts = Some(amounts);
    }

    /// Ends the game with a winner.
    pub(crate) fn win(&mut self, winner: usize, ending: Ending) {
        self.end = Some((ending, Some(winner)));
    }

    /// Ends the game without a winner.
    pub(crate) fn tie(&mut self, ending: Ending) {
        self.end = Some((ending, None));
    }
}
