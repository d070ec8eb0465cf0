//! What the page shows of a verdict.

use serde_json::{Value, json};
use spag_game::{Episode, JudgeKind, Referee, Seat, Verdict};

/// A judged game.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// How the game ended, or would if it ended here.
    verdict: Verdict,
    /// Whether the game is decided, or its turns are played.
    pub(crate) is_over: bool,
    /// The deciding utterance in pieces, or none in a tie.
    pieces: Vec<Value>,
}

impl Judged {
    /// Judges an episode as far as it has been played.
    ///
    /// # Errors
    /// The target word is empty, or the roles do not alternate.
    pub(crate) fn of(episode: &Episode, kind: JudgeKind) -> spag_game::Result<Self> {
        episode.check()?;
        let referee = Referee::new(kind, &episode.item)?;
        let verdict = referee.judge(&episode.view());
        let is_over = verdict.winner().is_some() || episode.history.len() >= episode.max_turns.saturating_mul(2);
        let deciding = episode.history.get(verdict.history_length.saturating_sub(1));
        let pieces = deciding.filter(|_| verdict.winner().is_some());
        let pieces = pieces.map(|said| pieces_of(&referee, said.role, &said.content)).unwrap_or_default();
        Ok(Self { verdict, is_over, pieces })
    }

    /// The verdict, or null while the game goes on.
    pub(crate) fn json(&self) -> Value {
        if self.is_over { self.final_json() } else { Value::Null }
    }

    /// The verdict on a game that is not played any further: without a decision it is a tie.
    pub(crate) fn final_json(&self) -> Value {
        json!({
            "outcome": self.verdict.ending.outcome,
            "ending": self.verdict.ending.name,
            "winner": self.verdict.winner(),
            "length": self.verdict.history_length,
            "pieces": self.pieces,
        })
    }
}

/// An utterance in pieces, of which those that decide the game are marked.
fn pieces_of(referee: &Referee, role: Seat, content: &str) -> Vec<Value> {
    let mut pieces = Vec::new();
    let mut piece = |text: &str, is_marked: bool| {
        if !text.is_empty() {
            pieces.push(json!({"text": text, "marked": is_marked}));
        }
    };
    let mut end = 0;
    for part in referee.deciding_parts(role, content) {
        piece(&content[end..part.start], false);
        piece(&content[part.clone()], true);
        end = part.end;
    }
    piece(&content[end..], false);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(max_turns: usize, said: &[&str]) -> Value {
        let mut episode = Episode::new("tiger", max_turns);
        said.iter().for_each(|text| episode.push(episode.next_role(), *text));
        Judged::of(&episode, JudgeKind::Paper).unwrap().json()
    }

    #[test]
    fn verdict_has_the_deciding_utterance_in_pieces() {
        let verdict = judged(5, &["It has stripes.", "Oh, I know the word! It is tiger!"]);
        assert_eq!((&verdict["ending"], &verdict["winner"]), (&json!("right_guess"), &json!("defender")));
        let pieces = verdict["pieces"].as_array().unwrap();
        let texts: Vec<_> = pieces.iter().map(|piece| (piece["text"].as_str().unwrap(), &piece["marked"])).collect();
        let (yes, no) = (json!(true), json!(false));
        assert_eq!(texts, [("Oh, ", &no), ("I know the word! It is tiger", &yes), ("!", &no)]);
        let broken = judged(5, &["My tiger."]);
        assert_eq!((&broken["ending"], &broken["winner"]), (&json!("broken_rule"), &json!("defender")));
    }

    #[test]
    fn game_is_over_when_decided_or_after_its_turns() {
        assert_eq!(judged(2, &[]), Value::Null);
        assert_eq!(judged(2, &["a", "b", "c"]), Value::Null);
        let tie = judged(2, &["a", "b", "c", "d"]);
        assert_eq!((&tie["ending"], &tie["winner"], &tie["pieces"]), (&json!("tie"), &Value::Null, &json!([])));
    }
}
