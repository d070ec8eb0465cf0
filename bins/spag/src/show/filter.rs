//! Which games are shown.

use clap::ValueEnum;
use serde_json::Value;
use spag_game::Episode;
use spag_selfplay::Ending;

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
    /// Nobody won.
    Tie,
}

impl Wanted {
    fn fits(self, ending: Ending) -> bool {
        self == match ending {
            Ending::RightGuess => Self::DefenderWins,
            Ending::WrongGuess | Ending::SaidUnknowingly => Self::AttackerWins,
            Ending::BrokenRule => Self::AttackerBreaksRules,
            Ending::Tie => Self::Tie,
        }
    }
}

/// What a game must be like.
pub(super) struct Filter {
    /// In lower case.
    word: Option<String>,
    game: Option<u64>,
    outcome: Option<Wanted>,
}

impl Filter {
    /// What is not given fits every game.
    pub(super) fn new(word: Option<&str>, game: Option<u64>, outcome: Option<Wanted>) -> Self {
        Self { word: word.map(str::to_lowercase), game, outcome }
    }

    /// Whether a game in this row fits.
    pub(super) fn wants(&self, row: usize, episode: &Episode, ending: Ending) -> bool {
        let number = game_number(episode).unwrap_or(row as u64);
        self.word.as_ref().is_none_or(|word| episode.target_word.to_lowercase() == *word)
            && self.game.is_none_or(|game| game == number)
            // A game that was not played to its end is no tie.
            && self.outcome.is_none_or(|outcome| outcome.fits(ending) && failure(episode).is_none())
    }
}

/// The game's number, where its record notes one.
pub(super) fn game_number(episode: &Episode) -> Option<u64> {
    episode.extra.get("game").and_then(Value::as_u64)
}

/// Why a game was not played to its end, as the files of failed games note it.
pub(super) fn failure(episode: &Episode) -> Option<&str> {
    episode.extra.get("reason").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(word: &str, extra: &str) -> Episode {
        serde_json::from_str(&format!(r#"{{"history": [], "target_word": "{word}"{extra}}}"#)).unwrap()
    }

    #[test]
    fn all_conditions_hold_together() {
        let noted = game("Horse", r#", "game": 7"#);
        let fits = |filter: Filter| filter.wants(3, &noted, Ending::SaidUnknowingly);
        assert!(fits(Filter::new(None, None, None)));
        assert!(fits(Filter::new(Some("hoRse"), Some(7), Some(Wanted::AttackerWins))));
        assert!(!fits(Filter::new(Some("hors"), None, None)));
        assert!(!fits(Filter::new(None, Some(3), None)));
        assert!(!fits(Filter::new(None, None, Some(Wanted::DefenderWins))));
        // Without a number, the row is the number.
        let plain = game("Horse", "");
        assert!(Filter::new(None, Some(3), None).wants(3, &plain, Ending::Tie));
    }

    #[test]
    fn a_failed_game_is_no_tie() {
        let ties = Filter::new(None, None, Some(Wanted::Tie));
        assert!(ties.wants(1, &game("horse", ""), Ending::Tie));
        assert!(!ties.wants(1, &game("horse", r#", "reason": "the server is gone""#), Ending::Tie));
    }
}
