//! Questions about positions of games: what a player sees, and what an action does. A model that has answered some reads boards and
//! cards where it is to act on them.

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value};
use spag_game::games::BestActions;
use spag_game::{Game, Match};

use crate::config::QuestionKind;
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
    /// One at least.
    pub(super) legal: &'a [String],
    /// What questions are about; what an action does and twice what is seen if empty.
    pub(super) kinds: &'a [QuestionKind],
}

impl Turn<'_> {
    /// A question of one of the kinds. `None` if it is about what the player to move sees, and that is nothing but the rules.
    pub(super) fn question(&self, rng: &mut ChaCha8Rng) -> Result<Option<Question>> {
        const ABSENT: &[QuestionKind] = &[QuestionKind::Effect, QuestionKind::Seen, QuestionKind::Seen];
        let kinds = if self.kinds.is_empty() { ABSENT } else { self.kinds };
        let kind = kinds[rng.random_range(0..kinds.len())];
        let (line, answer) = match kind {
            QuestionKind::Seen => return self.seen(rng),
            QuestionKind::Effect => {
                let action = self.action(rng);
                (format!("What does {action} do?"), self.effect(action)?)
            }
            QuestionKind::Wins => ("What wins?".to_owned(), self.winning(None, rng)?),
            QuestionKind::Replies => {
                let action = self.action(rng);
                (format!("What wins after {action}?"), self.winning(Some(action), rng)?)
            }
        };
        Ok(Some(Question { line, answer }))
    }

    /// Any legal action.
    pub(super) fn action(&self, rng: &mut ChaCha8Rng) -> &str {
        &self.legal[rng.random_range(0..self.legal.len())]
    }

    /// The position, after one more action if there is one.
    fn after(&self, action: Option<&str>) -> Result<Box<dyn Match + '_>> {
        let mut state = BestActions::start(self.game, self.seed)?;
        for action in self.actions.iter().map(String::as_str).chain(action) {
            state.apply(action);
        }
        Ok(state)
    }

    /// What a legal action does to the player to move.
    fn effect(&self, action: &str) -> Result<String> {
        let mut state = self.after(None)?;
        let seat = state.to_move();
        let does = match state.apply(action).verdict.map(|verdict| verdict.winner()) {
            None => "nothing",
            Some(None) => "draws",
            Some(Some(winner)) if winner == seat => "wins",
            Some(Some(_)) => "loses",
        };
        Ok(does.to_owned())
    }

    fn seen(&self, rng: &mut ChaCha8Rng) -> Result<Option<Question>> {
        let state = self.after(None)?;
        let mut seen = Vec::new();
        fields(&state.private_state(state.to_move()), &mut seen);
        if seen.is_empty() {
            fields(&state.public_state(), &mut seen);
        }
        let chosen = seen.choose(rng);
        Ok(chosen.map(|(name, value)| Question { line: format!("What is {name}?"), answer: value.clone() }))
    }

    /// An action that wins at once, in this position or after `first`; "nothing" if there is none.
    fn winning(&self, first: Option<&str>, rng: &mut ChaCha8Rng) -> Result<String> {
        let state = self.after(first)?;
        let mut winning = Vec::new();
        for action in state.legal_actions().unwrap_or_default() {
            let end = self.after(first)?.apply(&action).verdict;
            if end.is_some_and(|verdict| verdict.winner() == Some(state.to_move())) {
                winning.push(action);
            }
        }
        Ok(winning.choose(rng).cloned().unwrap_or_else(|| "nothing".to_owned()))
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::SeedableRng;
    use spag_game::NamedGame;
    use spag_io::PromptFormat;

    use super::*;

    /// Answers by their questions, of many about one position.
    fn asked(name: &str, kinds: &[QuestionKind], actions: &[&str]) -> BTreeMap<String, String> {
        let game = NamedGame::open(name, PromptFormat::Plain).unwrap().game;
        let mut state = BestActions::start(&*game, 1).unwrap();
        actions.iter().for_each(|action| assert!(state.apply(action).refusal.is_none()));
        let legal = state.legal_actions().unwrap();
        let actions: Vec<String> = actions.iter().map(|action| (*action).to_owned()).collect();
        let turn = Turn { game: &*game, seed: 1, actions: &actions, legal: &legal, kinds };
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let questions = (0..400).filter_map(|_| turn.question(&mut rng).unwrap());
        questions.map(|Question { line, answer }| (line, answer)).collect()
    }

    #[test]
    fn questions_are_about_the_position_and_about_what_actions_do() {
        let board = asked("tic-tac-toe", &[], &["[0]", "[3]", "[1]", "[4]"]);
        let answer = |line: &str| board.get(line).map(String::as_str);
        let cells: Vec<_> = (0..9).map(|cell| answer(&format!("What is board {cell}?")).unwrap()).collect();
        assert_eq!((cells[0], cells[1], cells[2]), (cells[1], cells[0], cells[8]));
        assert!(cells[3] == cells[4] && cells[0] != cells[3] && cells[2] == ".", "{cells:?}");
        assert_eq!((answer("What does [2] do?"), answer("What does [8] do?")), (Some("wins"), Some("nothing")));
        assert_eq!(board.len(), 9 + 5);

        let poker = asked("kuhn-poker rounds=1", &[], &[]);
        assert!(["J", "Q", "K"].contains(&poker["What is card?"].as_str()));
        assert_eq!(poker["What does [bet] do?"], "nothing");
        // Whether a call wins depends on the cards alone.
        assert!(
            ["wins", "loses"].contains(&asked("kuhn-poker rounds=1", &[], &["[bet]"])["What does [call] do?"].as_str())
        );
    }

    #[test]
    fn questions_are_about_what_wins() {
        let kinds = [QuestionKind::Wins, QuestionKind::Replies];
        // O has 0 and 1 and moves, X has 3 and 4.
        let board = asked("tic-tac-toe", &kinds, &["[0]", "[3]", "[1]", "[4]"]);
        let answer = |line: &str| board.get(line).map(String::as_str);
        assert_eq!((answer("What wins?"), answer("What wins after [8]?")), (Some("[2]"), Some("[5]")));
        assert_eq!(
            (answer("What wins after [5]?"), answer("What wins after [2]?")),
            (Some("nothing"), Some("nothing"))
        );
        assert_eq!(board.len(), 1 + 5);
        assert_eq!(asked("tic-tac-toe", &kinds, &["[0]"])["What wins?"], "nothing");
    }
}
