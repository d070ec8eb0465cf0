//! Don't Say It: each player has a secret word and wants the other to say it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::data::no_words;
use super::declare::{ending, labels};
use super::native::{ActionText, Native, Position, object};
use super::options::Options;
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::{Ending, EndingLabel, INVALID, Play};
use crate::error::Result;
use crate::labels::Labels;

ending!(
    /// A player says the other's word.
    SAID, "said", "word said", "a player says the other's word and loses"
);
/// Neither player said the other's word.
pub const TURN_LIMIT: Ending = Ending::new(&EndingLabel {
    name: "turn_limit",
    title: "turn limit",
    description: "tied at the turn limit",
    outcome: "turn_limit",
    winner: None,
    play: Play::ByTheRules,
});
labels!("dont-say-it", "Don't Say It", Sentences, [SAID, TURN_LIMIT, INVALID]);

/// The words and the number of turns.
#[derive(Debug)]
pub(crate) struct DontSayIt {
    words: Arc<[String]>,
    max_turns: u64,
}

impl DontSayIt {
    pub(crate) fn new(words: Arc<[String]>, options: &mut Options<'_>) -> Result<Self> {
        Ok(Self { words, max_turns: options.integer("max_turns", 2..=200, 20)? })
    }
}

impl Native for DontSayIt {
    type Position = Words;

    const LABELS: &'static Labels = &LABELS;
    const ACTION_TEXT: ActionText = ActionText::AsSaid;

    fn deal(&self, _: &str, mut random: PythonRandom) -> Result<Words> {
        let mut word = || random.choice(&self.words).cloned().ok_or_else(|| no_words(LABELS.name));
        let words = [word()?, word()?];
        Ok(Words { lower: words.each_ref().map(|word| word.to_lowercase()), words, max_turns: self.max_turns })
    }
}

/// The secret word of each player.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    words: [String; 2],
    lower: [String; 2],
    max_turns: u64,
}

impl Position for Words {
    fn prompt(&self, player: usize) -> String {
        format!(
            "This is Don't Say It, and you are player {player}. Your secret word is: {}\n\
             You win if the other player says your word, also as part of another word, and lose if you say the other \
             player's word. You may say your own.\n\
             The game has {} turns and is tied if neither word is said. Write what you say, for example: How was your day?",
            self.words[player], self.max_turns,
        )
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        let player = table.player();
        if action.to_lowercase().contains(&self.lower[1 - player]) {
            table.win(1 - player, SAID);
        } else if table.turn() as u64 >= self.max_turns {
            table.tie(TURN_LIMIT);
        }
    }

    fn public(&self, table: &Table) -> Map<String, Value> {
        turns(table, self.max_turns)
    }

    fn private(&self, player: usize) -> Map<String, Value> {
        object([("word", self.words[player].as_str().into())])
    }
}

/// The state of a game with a limit of turns: the limit, and accepted actions before the end.
pub(super) fn turns(table: &Table, max_turns: u64) -> Map<String, Value> {
    let mut state = object([("max_turns", max_turns.into())]);
    if !table.is_over() {
        state.insert("turn".into(), table.turn().into());
    }
    state
}
