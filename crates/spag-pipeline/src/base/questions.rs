//! Questions about positions of games: what a player sees, and what an action does. A model that has answered some reads boards and
//! cards where it is to act on them.

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value};
use spag_game::games::BestActions;
use spag_game::{Game, Seat};

use crate::error::Result;

/// A question, as a line of the game, and its answer.
pub(super) struct Question {
    pub(super) line: String,
    pub(super) answer: String,
}

/// A turn of a game.
pub(super) struct Turn<'a> {
    pub(super) game: &'a dyn Game,
    /// The seed of its deal.
    pub(super) seed: u64,
    /// The actions before it.
    pub(super) actions: &'a [String],
    pub(super) legal: &'a [String],
}

impl Turn<'_> {
    /// A question about what the player to move sees, or about what an action does. `None` if it sees nothing but the rules.
    pub(super) fn question(&self, rng: &mut ChaCha8Rng) -> Result<Option<Question>> {
        let mut state = BestActions::start(self.game, self.seed)?;
        self.actions.iter().for_each(|action| drop(state.apply(action)));
        let seat = state.to_move();
        if rng.random_range(0..3) == 0
            && let Some(action) = self.legal.choose(rng)
        {
            let ruling = state.apply(action);
            let end = ruling.verdict.map(|verdict| verdict.winner());
            return Ok(Some(Question { line: format!("What does {action} do?"), answer: effect(end, seat) }));
        }
        let mut seen = Vec::new();
        fields(&state.private_state(seat), &mut seen);
        if seen.is_empty() {
            fields(&state.public_state(), &mut seen);
        }
        let chosen = seen.choose(rng);
        Ok(chosen.map(|(name, value)| Question { line: format!("What is {name}?"), answer: value.clone() }))
    }
}

fn effect(end: Option<Option<Seat>>, seat: Seat) -> String {
    match end {
        None => "nothing",
        Some(None) => "draws",
        Some(Some(winner)) if winner == seat => "wins",
        Some(Some(_)) => "loses",
    }
    .to_owned()
}

/// The texts and numbers of a state by their names; those of lists by their numbers, too.
fn fields(state: &Map<String, Value>, found: &mut Vec<(String, String)>) {
    for (name, value) in state.iter().filter(|(name, _)| *name != "legal") {
        field(name, value, found);
    }
}

fn field(name: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        // A board is a text of its cells.
        Value::String(text) if text.chars().nth(1).is_some() => {
            let cells = text.chars().map(|cell| if cell == ' ' { '-' } else { cell });
            found.extend(cells.enumerate().map(|(at, cell)| (format!("{name} {at}"), cell.to_string())));
        }
        Value::String(text) => found.push((name.to_owned(), text.clone())),
        Value::Number(number) => found.push((name.to_owned(), number.to_string())),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| field(&format!("{name} {at}"), item, found));
        }
        Value::Null => found.push((name.to_owned(), "-".to_owned())),
        Value::Bool(_) | Value::Object(_) => {}
    }
}
