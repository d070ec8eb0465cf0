//! One game as text.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use spag_game::{Episode, ReasoningEnd, SEATS, Utterance, Verdict};
use spag_io::escape;

use super::{
    filter::{failure, game_number},
    text::{limit_marks, wrap},
};

/// Columns of the margin, which holds the role.
const MARGIN: usize = 12;

const HEAD: Style = Style::new().bold();
/// Styles of the names of both seats.
const SEAT_STYLES: [Style; SEATS] = [AnsiColor::Red.on_default(), AnsiColor::Cyan.on_default()];
const ENDING: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();

/// Renders games, in colour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renderer {
    /// Maximum number of columns.
    pub(super) width: usize,
    pub(super) reasoning: Reasoning,
}

/// Whether the reasoning of players is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reasoning {
    Hidden,
    Shown,
}

fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

impl Renderer {
    /// A game with its ending.
    pub(super) fn game(self, row: usize, episode: &Episode, verdict: &Verdict) -> String {
        let length = verdict.history_length;
        let mut out = self.head(row, episode);
        let (counted, after) = episode.history.split_at(length.min(episode.history.len()));
        for utterance in counted {
            self.utterance(utterance, SEAT_STYLES[utterance.seat.index()], None, &mut out);
        }
        self.line(ENDING, &format!("→ {}", how(episode, verdict)), &mut out);
        if !after.is_empty() {
            self.line(DIM, "what was said afterwards does not count:", &mut out);
            for utterance in after {
                self.utterance(utterance, DIM, Some(DIM), &mut out);
            }
        }
        out
    }

    /// The last line: the number of games shown, of those read.
    pub(super) fn closing(shown: usize, read: usize) -> String {
        let games = if read == 1 { "game" } else { "games" };
        paint(DIM, format!("{shown} of {read} {games} read shown"))
    }

    fn head(self, row: usize, episode: &Episode) -> String {
        let number = match game_number(episode) {
            Some(number) => format!("game {number}, row {row}"),
            None => format!("row {row}"),
        };
        let head = match episode.max_turns {
            // A game whose seed and options say what it is about.
            0 if episode.item.is_empty() => number,
            turns => {
                let unit = if turns == 1 { "turn" } else { "turns" };
                format!("{number}: {} ({turns} {unit} at most)", limit_marks(&escape(&episode.item)))
            }
        };
        let lines = wrap(&head, self.width).into_iter().map(|line| paint(HEAD, line) + "\n");
        lines.collect()
    }

    /// An utterance after its reasoning and the styled name of its role; the text is plain unless it has a style too.
    fn utterance(self, utterance: &Utterance, name: Style, text: Option<Style>, out: &mut String) {
        if self.reasoning == Reasoning::Shown {
            self.reasoning(utterance, out);
        }
        self.text(utterance.seat.name(), &utterance.content, (name, text), out);
    }

    /// The reasoning before an utterance, below a line that says whose it is.
    fn reasoning(self, Utterance { seat, reasoning, reasoning_end, .. }: &Utterance, out: &mut String) {
        let end = match reasoning_end {
            Some(ReasoningEnd::Forced) => ", ended by its budget",
            Some(ReasoningEnd::Unfinished) => ", unfinished",
            None if reasoning.is_none() => return,
            None => "",
        };
        self.line(DIM, &format!("{seat} thinks{end}:"), out);
        if let Some(reasoning) = reasoning {
            self.text("", reasoning, (DIM, Some(DIM)), out);
        }
    }

    /// A text beside the margin, in whose first line is the role.
    fn text(self, mut role: &str, said: &str, (name, text): (Style, Option<Style>), out: &mut String) {
        for line in said.split('\n') {
            for piece in wrap(&limit_marks(&escape(line)), self.width.saturating_sub(MARGIN).max(1)) {
                let margin = format!("  {role:<width$}", width = MARGIN - 2);
                let margin = if piece.is_empty() { margin.trim_end() } else { &margin };
                out.push_str(&if role.is_empty() { margin.to_owned() } else { paint(name, margin) });
                out.push_str(&text.map_or_else(|| piece.clone(), |style| paint(style, &piece)));
                out.push('\n');
                role = "";
            }
        }
    }

    /// A line indented by two columns.
    fn line(self, style: Style, text: &str, out: &mut String) {
        for piece in wrap(text, self.width.saturating_sub(2).max(1)) {
            out.push_str(&format!("  {}\n", paint(style, piece)));
        }
    }
}

/// The ending and its place.
fn how(episode: &Episode, verdict: &Verdict) -> String {
    if let Some(reason) = failure(episode) {
        let role = episode.extra.get("role").and_then(Value::as_str).unwrap_or("a player");
        return format!(
            "not played to its end; no utterance of the {}: {}",
            escape(role),
            limit_marks(&escape(reason))
        );
    }
    let (what, length) = (verdict.ending.description, verdict.history_length);
    match verdict.winner() {
        None => format!("{what} after utterance {length}"),
        Some(_) => format!("{what} (utterance {length})"),
    }
}

#[cfg(test)]
mod tests {
    use spag_game::{Ending, taboo};

    use super::*;

    fn game(said: &[&str]) -> Episode {
        let mut episode = Episode::new("tiger", 5);
        for text in said {
            episode.push(episode.next_role(), *text);
        }
        episode
    }

    /// A game without its colours.
    fn plain(width: usize, row: usize, episode: &Episode, ending: Ending, length: usize) -> String {
        let renderer = Renderer { width, reasoning: Reasoning::Shown };
        anstream::adapter::strip_str(&renderer.game(row, episode, &Verdict::of(ending, length))).to_string()
    }

    #[test]
    fn game_is_wrapped_to_the_width() {
        let episode = game(&["It has stripes and teeth.", "I know the word!\nIt is \x1b[31mzebra!", "No, tiger."]);
        let text = plain(32, 4, &episode, taboo::WRONG_GUESS, 2);
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
    fn game_number_is_printed_and_later_utterances_are_dim() {
        let mut episode = game(&["tiger", "Well."]);
        episode.extra.insert("game".into(), 12.into());
        let renderer = Renderer { width: 100, reasoning: Reasoning::Hidden };
        let text = renderer.game(3, &episode, &Verdict::of(taboo::BROKEN_RULE, 1));
        assert!(text.starts_with("\x1b[1mgame 12, row 3: tiger"), "{text}");
        assert!(text.contains("\x1b[31m  attacker  \x1b[0mtiger\n"), "{text}");
        assert!(text.contains("\x1b[2m  defender  \x1b[0m\x1b[2mWell.\x1b[0m\n"), "{text}");
    }

    #[test]
    fn reasoning_is_wrapped_before_its_utterance() {
        let mut episode = game(&["It has stripes.", ""]);
        episode.history[0].reasoning = Some("My word is tiger.\nattacker thinks".into());
        episode.history[0].reasoning_end = Some(ReasoningEnd::Forced);
        episode.history[1].reasoning = Some("It\x07".into());
        episode.history[1].reasoning_end = Some(ReasoningEnd::Unfinished);
        let text = plain(26, 1, &episode, taboo::TIE, 2);
        let lines = [
            "  attacker thinks, ended",
            "  by its budget:",
            "            My word is",
            "            tiger.",
            "            attacker",
            "            thinks",
            "  attacker  It has",
            "            stripes.",
            "  defender thinks,",
            "  unfinished:",
            "            It\\u{7}",
            "  defender",
            "  → tied after utterance 2",
        ];
        assert_eq!(text.lines().skip(2).collect::<Vec<_>>(), lines);
        let renderer = Renderer { width: 26, reasoning: Reasoning::Hidden };
        assert!(!renderer.game(1, &episode, &Verdict::of(taboo::TIE, 2)).contains("thinks"));
    }

    #[test]
    fn failed_game_states_its_reason() {
        let mut episode = game(&["It has stripes."]);
        episode.extra.insert("role".into(), "defender".into());
        episode.extra.insert("reason".into(), "503\x07".into());
        let text = plain(100, 1, &episode, taboo::TIE, 1);
        assert!(text.contains("→ not played to its end; no utterance of the defender: 503\\u{7}\n"), "{text}");
        let tie = plain(100, 1, &game(&["A", "B"]), taboo::TIE, 2);
        assert!(tie.contains("→ tied after utterance 2\n"), "{tie}");
    }
}
