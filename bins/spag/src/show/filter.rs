//! Selects games by word, number and outcome.

use clap::ValueEnum;
use serde_json::Value;
use spag_game::taboo::Outcome;
use spag_game::{Ending, Episode};

/// `--outcome`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Wanted {
    /// The defender guessed wrong, or said the word unknowingly.
    AttackerWins,
    /// The defender guessed right.
    DefenderWins,
    /// The attacker said the word or made a guess.
    AttackerBreaksRules,
    /// Neither player won.
    Tie,
}

impl Wanted {
    fn fits(self, ending: Ending) -> bool {
        self == match Outcome::of(ending) {
            Outcome::AttackerWins => Self::AttackerWins,
            Outcome::DefenderWins => Self::DefenderWins,
            Outcome::AttackerBreaksRules => Self::AttackerBreaksRules,
            Outcome::Tie => Self::Tie,
        }
    }
}

/// The conditions of a game; all of them hold.
pub(super) struct Filter {
    /// In lower case.
    word: Option<String>,
    game: Option<u64>,
    outcome: Option<Wanted>,
}

impl Filter {
    /// A condition that is `None` holds for every game.
    pub(super) fn new(word: Option<&str>, game: Option<u64>, outcome: Option<Wanted>) -> Self {
        Self { word: word.map(str::to_lowercase), game, outcome }
    }

    /// Whether a game in this row meets all conditions.
    pub(super) fn wants(&self, row: usize, episode: &Episode, ending: Ending) -> bool {
        let number = game_number(episode).unwrap_or(row as u64);
        self.word.as_ref().is_none_or(|word| episode.item.to_lowercase() == *word)
            && self.game.is_none_or(|game| game == number)
            // A failed game is not a tie.
            && self.outcome.is_none_or(|outcome| outcome.fits(ending) && failure(episode).is_none())
    }
}

/// The number of the game, if it is recorded.
pub(super) fn game_number(episode: &Episode) -> Option<u64> {
    episode.extra.get("game").and_then(Value::as_u64)
}

/// The reason of a failed game.
pub(super) fn failure(episode: &Episode) -> Option<&str> {
    episode.extra.get("reason").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use spag_game::taboo;

    use super::*;

    fn game(word: &str, extra: &str) -> Episode {
        serde_json::from_str(&format!(r#"{{"history": [], "target_word": "{word}"{extra}}}"#)).unwrap()
    }

    #[test]
    fn conditions_are_combined() {
        let noted = game("Horse", r#", "game": 7"#);
        let fits = |filter: Filter| filter.wants(3, &noted, taboo::SAID_UNKNOWINGLY);
        assert!(fits(Filter::new(None, None, None)));
        assert!(fits(Filter::new(Some("hoRse"), Some(7), Some(Wanted::AttackerWins))));
        assert!(!fits(Filter::new(Some("hors"), None, None)));
        assert!(!fits(Filter::new(None, Some(3), None)));
        assert!(!fits(Filter::new(None, None, Some(Wanted::DefenderWins))));
        // Without a recorded number the row counts.
        let plain = game("Horse", "");
        assert!(Filter::new(None, Some(3), None).wants(3, &plain, taboo::TIE));
    }

    #[test]
    fn failed_game_is_not_a_tie() {
        let ties = Filter::new(None, None, Some(Wanted::Tie));
        assert!(ties.wants(1, &game("horse", ""), taboo::TIE));
        assert!(!ties.wants(1, &game("horse", r#", "reason": "the server is gone""#), taboo::TIE));
    }
}
