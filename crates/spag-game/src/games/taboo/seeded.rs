//! Adversarial Taboo as a game whose seed draws the word, with the messages of native games.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::judge::{JudgeKind, Referee};
use super::labels::{ATTACKER, BROKEN_RULE, LABELS, RIGHT_GUESS, SAID_UNKNOWINGLY, TIE, WRONG_GUESS};
use crate::ending::Ending;
use crate::error::Result;
use crate::games::data::no_words;
use crate::games::native::{ActionText, Native, Position, object};
use crate::games::options::Options;
use crate::games::python_random::PythonRandom;
use crate::games::table::Table;
use crate::labels::Labels;
use crate::seat::SEATS;

/// The words and the number of turns. A turn is one utterance of each player.
#[derive(Debug)]
pub(crate) struct SeededTaboo {
    words: Arc<[String]>,
    max_turns: u64,
}

impl SeededTaboo {
    pub(crate) fn new(words: Arc<[String]>, options: &mut Options<'_>) -> Result<Self> {
        Ok(Self { words, max_turns: options.integer("max_turns", 1..=200, 5)? })
    }
}

impl Native for SeededTaboo {
    type Position = Secret;

    const LABELS: &'static Labels = &LABELS;
    const ACTION_TEXT: ActionText = ActionText::AsSaid;

    fn deal(&self, item: &str, mut random: PythonRandom) -> Result<Secret> {
        let word = match item {
            "" => random.choice(&self.words).cloned().ok_or_else(|| no_words(LABELS.name))?,
            item => item.to_owned(),
        };
        Ok(Secret { referee: Referee::new(JudgeKind::Paper, &word)?, word, max_turns: self.max_turns })
    }

    fn reason(ending: Ending) -> &'static str {
        match ending {
            RIGHT_GUESS => "guess_right",
            WRONG_GUESS => "guess_wrong",
            SAID_UNKNOWINGLY => "said",
            BROKEN_RULE => "rule_broken",
            TIE => "turn_limit",
            other => other.label().name,
        }
    }
}

/// The target word.
#[derive(Debug)]
pub(crate) struct Secret {
    word: String,
    referee: Referee,
    max_turns: u64,
}

impl Position for Secret {
    fn prompt(&self, player: usize) -> String {
        let told = if player == ATTACKER.index() {
            format!(
                "You are the attacker, and the target word is: {}\n\
                 You win if the defender says the word without knowing that it is the target word, or guesses another word. \
                 You lose if you say it yourself or make a guess.\n\
                 Write what you say, for example: How was your day?",
                self.word
            )
        } else {
            "You are the defender. The attacker has a target word that you do not know, and wants you to say it. You win \
             if you guess it, and lose if you say it otherwise or guess another word.\n\
             Write what you say. To guess, write for example: I know the word! It is `apple`."
                .to_owned()
        };
        format!(
            "This is Adversarial Taboo, and you are player {player}. {told}\nAfter {} turns of both players the game is tied.",
            self.max_turns
        )
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        if let Some(ending) = self.referee.ending(table.seat(), action) {
            match ending.winner {
                Some(winner) => table.win(winner.index(), ending),
                None => table.tie(ending),
            }
        } else if table.turn() as u64 + 1 >= self.max_turns * SEATS as u64 {
            table.tie(TIE);
        }
    }

    fn public(&self, table: &Table) -> Map<String, Value> {
        let mut state = object([("max_turns", self.max_turns.into())]);
        if !table.is_over() {
            state.insert("turn".into(), (table.turn() / SEATS).into());
        }
        state
    }

    fn private(&self, player: usize) -> Map<String, Value> {
        if player == ATTACKER.index() { object([("word", self.word.as_str().into())]) } else { Map::new() }
    }
}
