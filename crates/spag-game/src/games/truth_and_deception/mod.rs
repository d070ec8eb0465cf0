//! Truth and Deception: one player knows which of two facts is correct and misleads the other, who guesses.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::data::{FactPair, no_words};
use super::declare::{ending, labels};
use super::dont_say_it::turns;
use super::native::{ActionText, Native, Position, object};
use super::options::Options;
use super::patterns::has_token;
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::INVALID;
use crate::error::Result;
use crate::game::Refusal;
use crate::labels::Labels;
use crate::message::MessageKind;

ending!(
    /// The guesser names the correct fact.
    GUESS_RIGHT, "guess_right", "right guess", "the guesser names the correct fact and wins"
);
ending!(
    /// The guesser names the wrong fact.
    GUESS_WRONG, "guess_wrong", "wrong guess", "the guesser names the wrong fact and loses"
);
labels!("truth-and-deception", "Truth and Deception", Sentences, [GUESS_RIGHT, GUESS_WRONG, INVALID]);

/// The player that deceives.
const DECEIVER: usize = 0;
/// What the guesser writes.
const GUESSES: [&str; 2] = ["fact 1", "fact 2"];

/// The facts and the number of turns, which is even.
#[derive(Debug)]
pub(crate) struct TruthAndDeception {
    facts: Arc<[FactPair]>,
    max_turns: u64,
}

impl TruthAndDeception {
    pub(crate) fn new(facts: Arc<[FactPair]>, options: &mut Options<'_>) -> Result<Self> {
        let max_turns = options.integer("max_turns", 2..=200, 6)?;
        if max_turns % 2 == 1 {
            let reason = "needs an even number, so that player 1 has the last turn".to_owned();
            return Err(options.error("max_turns", reason));
        }
        Ok(Self { facts, max_turns })
    }
}

impl Native for TruthAndDeception {
    type Position = Facts;

    const LABELS: &'static Labels = &LABELS;
    const ACTION_TEXT: ActionText = ActionText::AsSaid;
    const TAGS: [&'static str; 3] = ["[Deceiver]", "[Guesser]", "[GAME]"];

    fn deal(&self, _: &str, mut random: PythonRandom) -> Result<Facts> {
        let pair = random.choice(&self.facts).ok_or_else(|| no_words(LABELS.name))?;
        // Indices of the pair in the order in which they are shown.
        let mut order = [0, 1];
        random.shuffle(&mut order);
        let correct = usize::from(order[1] == pair.correct);
        Ok(Facts { shown: order.map(|fact| pair.facts[fact].clone()), correct, max_turns: self.max_turns })
    }
}

/// Two facts as they are shown.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    shown: [String; 2],
    /// The index of the correct one.
    correct: usize,
    max_turns: u64,
}

impl Position for Facts {
    fn prompt(&self, player: usize) -> String {
        let [first, second] = &self.shown;
        let (role, told) = if player == DECEIVER {
            let told = format!(
                "Fact {} is correct. You win if the other player names the wrong fact at the end",
                self.correct + 1
            );
            ("deceiver", told)
        } else {
            ("guesser", "One of them is correct, and the other player knows which. You win if you name it".to_owned())
        };
        format!(
            "This is Truth and Deception, and you are player {player}, the {role}.\n\
             Fact 1: {first}\nFact 2: {second}\n\
             {told}.\n\
             The game has {} turns of talk, player 0 begins, and in the last turn player 1 guesses: [Fact 1] or [Fact 2], \
             in brackets. Until then write what you say, for example: I read about the first one.",
            self.max_turns,
        )
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        let turns_left = self.max_turns.saturating_sub(table.turn() as u64);
        if turns_left == 2 {
            let text = "Player 1 now guesses: write [Fact 1] or [Fact 2].".to_owned();
            return table.tell(MessageKind::Message, text);
        }
        if turns_left > 1 {
            return;
        }
        let guesser = table.player();
        let named = GUESSES.map(|guess| has_token(action, guess));
        if named == [false, false] {
            table.refuse(Refusal::Format, "it is neither [Fact 1] nor [Fact 2].");
        } else if named[self.correct] {
            table.win(guesser, GUESS_RIGHT);
        } else {
            table.win(1 - guesser, GUESS_WRONG);
        }
    }

    fn public(&self, table: &Table) -> Map<String, Value> {
        turns(table, self.max_turns)
    }

    fn private(&self, player: usize) -> Map<String, Value> {
        let mut known = object([("facts", json!(self.shown))]);
        if player == DECEIVER {
            known.insert("correct".into(), (self.correct + 1).into());
        }
        known
    }
}
