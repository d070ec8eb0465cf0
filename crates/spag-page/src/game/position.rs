//! What the page shows of a game that has messages: the board as its players see it, and what they may do.

use std::collections::HashMap;

use serde_json::{Value, json};
use spag_game::{Episode, Game, GameSpec, Match, Message, ReasoningEnd, Refusal, Seat, Sender, Verdict};
use spag_io::abridge;

/// A game as far as it was played.
pub(crate) struct Position<'g> {
    pub(crate) state: Box<dyn Match + 'g>,
    pub(crate) verdict: Option<Verdict>,
    /// Why the last utterance was refused.
    refusal: Option<Refusal>,
    /// The utterances that messages show, by the indices of both.
    utterances: HashMap<usize, usize>,
}

impl<'g> Position<'g> {
    /// Plays the utterances of an episode. Those after the end do not count.
    ///
    /// # Errors
    /// There is no game about the item; or an utterance, whose index is the error's, is not that of the seat to move.
    pub(crate) fn of(game: &'g dyn Game, episode: &Episode, seed: u64) -> Result<Self, NoPosition> {
        let spec =
            GameSpec { number: 0, item: episode.item.clone(), max_turns: episode.max_turns, seed, sampling_seed: None };
        let state = game.start(&spec).map_err(NoPosition::Game)?;
        let mut position = Self { state, verdict: None, refusal: None, utterances: HashMap::new() };
        for (at, said) in episode.history.iter().enumerate() {
            let expected = position.state.to_move();
            if said.seat.index() != expected.index() {
                return Err(NoPosition::Turn { at, found: said.seat, expected });
            }
            let before = position.state.messages().len();
            let ruling = match said.reasoning_end {
                Some(ReasoningEnd::Unfinished) => position.state.apply_nothing(),
                Some(ReasoningEnd::Forced) | None => position.state.apply(&said.content),
            };
            let is_said = |message: &Message| matches!(message.from, Sender::Player(_));
            let shown = position.state.messages().iter().skip(before).position(is_said);
            position.utterances.extend(shown.map(|shown| (before + shown, at)));
            (position.verdict, position.refusal) = (ruling.verdict, ruling.refusal);
            if position.verdict.is_some() {
                break;
            }
        }
        Ok(position)
    }

    /// The messages that `reader` may see, or all of them; who moves, and what is legal. Null for a game without messages.
    pub(crate) fn json(&self, reader: Option<Seat>, limit: usize) -> Value {
        let messages = self.state.messages();
        if messages.is_empty() {
            return Value::Null;
        }
        let is_over = self.verdict.is_some();
        let is_shown = |message: &Message| reader.is_none_or(|reader| is_over || message.is_for(reader));
        let shown = messages.iter().enumerate().filter(|(_, message)| is_shown(message));
        let to_move = self.state.to_move();
        json!({
            "messages": shown.map(|(at, message)| message_json(message, self.utterances.get(&at), limit)).collect::<Vec<_>>(),
            "to_move": (!is_over).then_some(to_move),
            "public": self.state.public_state(),
            "legal": self.state.legal_actions().filter(|_| reader.is_none_or(|reader| reader == to_move)),
            "refusal": self.refusal.map(Refusal::name),
        })
    }
}

/// Why there is no position.
#[derive(Debug)]
pub(crate) enum NoPosition {
    /// The game cannot start.
    Game(spag_game::Error),
    /// An utterance is not that of the seat to move.
    Turn {
        /// Its index in the history.
        at: usize,
        /// Whose it is.
        found: Seat,
        /// Whose turn it is.
        expected: Seat,
    },
}

/// The position at the end of a recorded game, with all messages; null for a game without messages, and if there is none.
pub(crate) fn of_record(episode: &Episode, game: &dyn Game, limit: usize) -> Value {
    let seed = episode.view().seed;
    Position::of(game, episode, seed).map_or(Value::Null, |position| position.json(None, limit))
}

/// A message, with the index of the utterance that it shows.
fn message_json(message: &Message, utterance: Option<&usize>, limit: usize) -> Value {
    let from = match message.from {
        Sender::Game => Value::Null,
        Sender::Player(seat) => json!(seat),
    };
    json!({
        "from": from,
        "to": message.to,
        "kind": message.kind,
        "text": abridge(&message.text, limit),
        "utterance": utterance,
    })
}
