//! One game as text.

use serde_json::Value;
use spag_game::{Episode, Role, Utterance};
use spag_selfplay::Ending;

use super::{
    escape::escape,
    filter::{failure, game_number},
    paint::{Paint, Style},
    wrap::wrap,
};

/// What stands before an utterance: who says it, in as many columns.
const MARGIN: usize = 12;

/// How games look on this page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) paint: Paint,
    /// Columns of the page.
    pub(super) width: usize,
}

impl Look {
    /// A game that ended so with its utterance number `length`, or without a decision after as many.
    pub(super) fn game(self, row: usize, episode: &Episode, ending: Ending, length: usize) -> String {
        let mut out = self.head(row, episode);
        let (counted, after) = episode.history.split_at(length.min(episode.history.len()));
        for utterance in counted {
            let style = match utterance.role {
                Role::Attacker => Style::Attacker,
                Role::Defender => Style::Defender,
            };
            self.utterance(utterance, style, None, &mut out);
        }
        self.line(Style::Ending, &format!("→ {}", how(episode, ending, length)), &mut out);
        if !after.is_empty() {
            self.line(Style::Dim, "what was said afterwards does not count:", &mut out);
            for utterance in after {
                self.utterance(utterance, Style::Dim, Some(Style::Dim), &mut out);
            }
        }
        out
    }

    /// The last line of all: how many of the games that were read are shown.
    pub(super) fn closing(self, shown: usize, read: usize) -> String {
        let games = if read == 1 { "game" } else { "games" };
        self.paint.text(Style::Dim, format!("{shown} of {read} {games} read shown"))
    }

    fn head(self, row: usize, episode: &Episode) -> String {
        let number = match game_number(episode) {
            Some(number) => format!("game {number}, row {row}"),
            None => format!("row {row}"),
        };
        let turns = if episode.max_turns == 1 { "turn" } else { "turns" };
        let head = format!("{number}: {} ({} {turns} at most)", escape(&episode.target_word), episode.max_turns);
        let lines = wrap(&head, self.width).into_iter().map(|line| self.paint.text(Style::Strong, line) + "\n");
        lines.collect()
    }

    /// Who says what; the text as it is, or in a style.
    fn utterance(self, utterance: &Utterance, name: Style, text: Option<Style>, out: &mut String) {
        let mut before = self.paint.text(name, format!("  {:<width$}", utterance.role.name(), width = MARGIN - 2));
        for line in utterance.content.split('\n') {
            for piece in wrap(&escape(line), self.width.saturating_sub(MARGIN).max(1)) {
                let piece = match text {
                    Some(style) => self.paint.text(style, piece),
                    None => piece,
                };
                let line = format!("{before}{piece}");
                out.push_str(line.trim_end());
                out.push('\n');
                before = " ".repeat(MARGIN);
            }
        }
    }

    /// A line of our own, two columns in.
    fn line(self, style: Style, text: &str, out: &mut String) {
        for piece in wrap(text, self.width.saturating_sub(2).max(1)) {
            out.push_str(&format!("  {}\n", self.paint.text(style, piece)));
        }
    }
}

/// How it ended, and where.
fn how(episode: &Episode, ending: Ending, length: usize) -> String {
    if let Some(reason) = failure(episode) {
        let role = episode.extra.get("role").and_then(Value::as_str).unwrap_or("a player");
        return format!("not played to its end; no utterance of the {}: {}", escape(role), escape(reason));
    }
    match ending {
        Ending::Tie => format!("{} after utterance {length}", ending.describe()),
        _ => format!("{} (utterance {length})", ending.describe()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(said: &[&str]) -> Episode {
        let mut episode = Episode::new("tiger", 5);
        for text in said {
            episode.push(episode.next_role(), *text);
        }
        episode
    }

    #[test]
    fn a_game_on_a_narrow_page() {
        let episode = game(&["It has stripes and teeth.", "I know the word!\nIt is \x1b[31mzebra!", "No, tiger."]);
        let look = Look { paint: Paint::Plain, width: 32 };
        let text = look.game(4, &episode, Ending::WrongGuess, 2);
        let lines = [
            "row 4: tiger (5 turns at most)",
            "  attacker  It has stripes and",
            "            teeth.",
            "  defender  I know the word!",
            "            It is",
            "            \\u{1b}[31mzebra!",
            "  → defender names a wrong word,",
            "  attacker wins (utterance 2)",
            "  what was said afterwards does",
            "  not count:",
            "  attacker  No, tiger.",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn what_does_not_count_is_dim_and_a_number_is_told() {
        let mut episode = game(&["tiger", "Well."]);
        episode.extra.insert("game".into(), 12.into());
        let look = Look { paint: Paint::Coloured, width: 100 };
        let text = look.game(3, &episode, Ending::BrokenRule, 1);
        assert!(text.starts_with("\x1b[1mgame 12, row 3: tiger"), "{text}");
        assert!(text.contains("\x1b[31m  attacker  \x1b[0mtiger\n"), "{text}");
        assert!(text.contains("\x1b[2m  defender  \x1b[0m\x1b[2mWell.\x1b[0m\n"), "{text}");
    }

    #[test]
    fn a_failed_game_says_why() {
        let mut episode = game(&["It has stripes."]);
        episode.extra.insert("role".into(), "defender".into());
        episode.extra.insert("reason".into(), "503\x07".into());
        let text = Look { paint: Paint::Plain, width: 100 }.game(1, &episode, Ending::Tie, 1);
        assert!(text.contains("→ not played to its end; no utterance of the defender: 503\\u{7}\n"), "{text}");
        let tie = Look { paint: Paint::Plain, width: 100 }.game(1, &game(&["A", "B"]), Ending::Tie, 2);
        assert!(tie.contains("→ tied after utterance 2\n"), "{tie}");
    }
}
