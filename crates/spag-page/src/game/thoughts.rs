//! The reasoning of models in games on the page, kept until it may be shown.
//!
//! A person who plays must not see what the opponent thinks before the game has ended, and the server keeps no games. So it keeps
//! the reasoning of the newest turns, each under a digest of the game up to its utterance.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};
use spag_game::{ReasoningEnd, Utterance};

/// Turns whose reasoning is kept.
const MAX_TURNS: usize = 4096;
/// Bytes of all reasoning that is kept.
const MAX_BYTES: usize = 64 << 20;

/// The reasoning before an utterance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Thought {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_end: Option<ReasoningEnd>,
}

impl Thought {
    fn bytes(&self) -> usize {
        self.reasoning.as_ref().map_or(0, String::len)
    }
}

/// The reasoning of the newest turns of all games. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thoughts(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    by_digest: HashMap<String, Thought>,
    /// The oldest first.
    digests: VecDeque<String>,
    bytes: usize,
}

impl Thoughts {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the reasoning before the last utterance of a game.
    pub(crate) fn keep(&self, game: &Value, history: &[Utterance], thought: Thought) {
        let Some(digest) = digests(game, history).last() else { return };
        let mut kept = self.kept();
        kept.bytes += thought.bytes();
        match kept.by_digest.insert(digest.clone(), thought) {
            Some(before) => kept.bytes -= before.bytes(),
            None => kept.digests.push_back(digest),
        }
        while kept.digests.len() > MAX_TURNS || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.digests.pop_front() else { break };
            kept.bytes -= kept.by_digest.remove(&oldest).map_or(0, |thought| thought.bytes());
        }
    }

    /// The reasoning before the utterances of a game from index `from` on, as far as it is kept.
    pub(crate) fn of(&self, game: &Value, history: &[Utterance], from: usize) -> Vec<(usize, Thought)> {
        if self.kept().digests.is_empty() {
            return Vec::new();
        }
        let digests: Vec<_> = digests(game, history).enumerate().skip(from).collect();
        let kept = self.kept();
        digests.into_iter().filter_map(|(at, digest)| Some((at, kept.by_digest.get(&digest)?.clone()))).collect()
    }
}

/// For each utterance, a digest of the game up to it.
fn digests<'a>(game: &Value, history: &'a [Utterance]) -> impl Iterator<Item = String> + 'a {
    history.iter().scan(game.to_string(), |digest, said| {
        *digest = spag_io::sha256(json!([digest, said.seat, said.content]).to_string().as_bytes());
        Some(digest.clone())
    })
}

#[cfg(test)]
mod tests {
    use spag_game::taboo::seat_at;

    use super::*;

    fn history(said: &[&str]) -> Vec<Utterance> {
        said.iter().enumerate().map(|(at, text)| Utterance::new(seat_at(at), *text)).collect()
    }

    fn thought(reasoning: &str) -> Thought {
        Thought { reasoning: Some(reasoning.to_owned()), reasoning_end: None }
    }

    #[test]
    fn reasoning_is_found_by_the_game_up_to_its_utterance() {
        let (thoughts, game) = (Thoughts::default(), json!(["taboo", 7]));
        for (said, reasoning) in [(&["a", "b"][..], "first"), (&["a", "b", "c", "d"], "second"), (&["a", "b"], "again")]
        {
            thoughts.keep(&game, &history(said), thought(reasoning));
        }
        let of = |game: &Value, said: &[&str], from| thoughts.clone().of(game, &history(said), from);
        let (first, second) = ((1, thought("again")), (3, thought("second")));
        assert_eq!(of(&game, &["a", "b", "c", "d", "e"], 0), [first.clone(), second.clone()]);
        assert_eq!(of(&game, &["a", "b", "c", "d"], 3), [second]);
        assert_eq!(of(&game, &["a", "b", "x", "d"], 0), [first]);
        assert_eq!(of(&game, &["ab"], 0), []);
        assert_eq!(of(&json!(["taboo", 8]), &["a", "b"], 0), []);
    }

    #[test]
    fn turns_and_bytes_are_bounded_and_the_oldest_go_first() {
        let (thoughts, game) = (Thoughts::default(), json!([]));
        for turn in 0..=MAX_TURNS {
            thoughts.keep(&game, &history(&[&turn.to_string()]), thought("x"));
        }
        let knows = |said: &str| !thoughts.of(&game, &history(&[said]), 0).is_empty();
        let size = || {
            let kept = thoughts.kept();
            (kept.by_digest.len(), kept.digests.len(), kept.bytes)
        };
        assert_eq!((knows("0"), knows("1"), size()), (false, true, (MAX_TURNS, MAX_TURNS, MAX_TURNS)));
        thoughts.keep(&game, &history(&["long"]), thought(&"x".repeat(MAX_BYTES)));
        assert_eq!((knows("1"), knows("long"), size()), (false, true, (1, 1, MAX_BYTES)));
        thoughts.keep(&game, &history(&["longer"]), thought(&"x".repeat(MAX_BYTES + 1)));
        assert_eq!((knows("longer"), size()), (false, (0, 0, 0)));
    }
}
