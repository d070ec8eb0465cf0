//! What the page shows of a verdict.

use serde_json::{Value, json};
use spag_game::{Episode, Game, Verdict, replay};

/// A judged game.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// How the game ended, or would if it ended here; `None` if its rules know no such end.
    verdict: Option<Verdict>,
    /// Whether the game is decided, or its turns are played.
    pub(crate) is_over: bool,
    /// The deciding utterance in pieces, or none without a winner.
    pieces: Vec<Value>,
}

impl Judged {
    /// Judges an episode as far as it has been played.
    ///
    /// # Errors
    /// It is not one of this game.
    pub(crate) fn of(episode: &Episode, game: &dyn Game) -> spag_game::Result<Self> {
        let view = episode.view();
        let (verdict, is_over) = match replay(game, &view)? {
            Some(verdict) => (Some(verdict), true),
            None => (game.judge().judge(&view).ok(), false),
        };
        let pieces = match verdict.and_then(|verdict| verdict.winner().and(verdict.history_length.checked_sub(1))) {
            Some(deciding) => pieces_of(game, episode, deciding)?,
            _ => Vec::new(),
        };
        Ok(Self { verdict, is_over, pieces })
    }

    /// The verdict, or null while the game goes on.
    pub(crate) fn json(&self) -> Value {
        if self.is_over { self.final_json() } else { Value::Null }
    }

    /// The verdict on a game that is not played any further: without a decision it is a tie.
    pub(crate) fn final_json(&self) -> Value {
        let Some(verdict) = self.verdict else { return Value::Null };
        json!({
            "outcome": verdict.ending.outcome,
            "ending": verdict.ending.name,
            "description": verdict.ending.description,
            "winner": verdict.winner(),
            "length": verdict.history_length,
            "pieces": self.pieces,
        })
    }
}

/// An utterance in pieces, of which those that decide the game are marked.
fn pieces_of(game: &dyn Game, episode: &Episode, utterance: usize) -> spag_game::Result<Vec<Value>> {
    let mut pieces = Vec::new();
    let Some(said) = episode.history.get(utterance) else { return Ok(pieces) };
    let mut piece = |text: &str, is_marked: bool| {
        if !text.is_empty() {
            pieces.push(json!({"text": text, "marked": is_marked}));
        }
    };
    let mut end = 0;
    for part in game.marks(episode, utterance)? {
        piece(&said.content[end..part.start], false);
        piece(&said.content[part.clone()], true);
        end = part.end;
    }
    piece(&said.content[end..], false);
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use spag_game::Taboo;

    use super::*;

    fn judged(max_turns: usize, said: &[&str]) -> Value {
        let mut episode = Episode::new("tiger", max_turns);
        said.iter().for_each(|text| episode.push(episode.next_role(), *text));
        Judged::of(&episode, &Taboo::default()).unwrap().json()
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
