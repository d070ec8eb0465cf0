//! A summary for a reader.

use std::fmt;

use super::{GamesSummary, SpeechSummary};
use crate::ending::Ending;

/// How wide names stand.
const NAMES: usize = 52;

impl fmt::Display for GamesSummary {
    /// Lines without a newline at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |indent: usize, name: &str, count: u64| {
            let width = NAMES - indent;
            writeln!(f, "{:indent$}{name:<width$}{count:>9}  {:5.1}%", "", 100.0 * self.share(count))
        };
        for (name, count) in self.outcomes() {
            line(2, name, count)?;
            if name == "attacker wins" {
                line(4, Ending::WrongGuess.describe(), self.ended(&[Ending::WrongGuess]))?;
                line(4, Ending::SaidUnknowingly.describe(), self.ended(&[Ending::SaidUnknowingly]))?;
            }
        }
        writeln!(f, "  {:<width$}{:>9}", "mean turns", number(self.mean_turns, 2), width = NAMES - 2)?;
        writeln!(
            f,
            "  {:<13}{:>10} {:>8} {:>9} {:>8} {:>11} {:>11} {:>11}",
            "utterances", "all", "empty", "repeated", "words", "characters", "distinct-1", "distinct-2"
        )?;
        row(f, "attacker", &self.attacker)?;
        writeln!(f)?;
        row(f, "defender", &self.defender)?;
        writeln!(f)?;
        row(f, "both", &self.overall)
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, speech: &SpeechSummary) -> fmt::Result {
    write!(
        f,
        "  {name:<13}{:>10} {:>8} {:>9} {:>8} {:>11} {:>11} {:>11}",
        speech.utterances,
        speech.empty,
        speech.repeated,
        number(speech.mean_words, 1),
        number(speech.mean_characters, 1),
        number(speech.distinct_1, 3),
        number(speech.distinct_2, 3)
    )
}

/// A number, or a dash where there is none.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}
