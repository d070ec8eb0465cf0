//! The newest games of a run with their utterances and verdicts.

use std::collections::VecDeque;

use serde_json::{Value, json};
use spag_game::{Episode, Game};
use spag_io::abridge;

use crate::game::{Judged, position};
use crate::runs::{RunGames, history_json};

/// Games whose text is kept.
pub(super) const NEWEST: usize = 40;
/// Bytes of an utterance that are shown.
const SHOWN: usize = 4000;

/// The newest games of all files.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// The number of the next game.
    next: u64,
    newest: VecDeque<(u64, Newest)>,
}

#[derive(Debug)]
struct Newest {
    set: String,
    episode: Episode,
}

impl Feed {
    pub(super) fn push(&mut self, set: &str, episode: Episode) {
        if self.newest.len() >= NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back((self.next, Newest { set: set.to_owned(), episode }));
        self.next += 1;
    }

    /// No games; the next one gets the number that it would have here.
    pub(super) fn emptied(&self) -> Self {
        Self { next: self.next, newest: VecDeque::new() }
    }

    /// The number of the game that comes next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The games from number `from` on, the newest first.
    pub(super) fn json(&self, from: u64, games: &RunGames) -> Vec<Value> {
        let newer = self.newest.iter().rev().take_while(|(number, _)| *number >= from);
        newer.filter_map(|(number, game)| game_json(*number, game, &**games.of(&game.set))).collect()
    }
}

fn game_json(number: u64, Newest { set, episode }: &Newest, rules: &dyn Game) -> Option<Value> {
    let judged = Judged::of(episode, rules).ok()?;
    let mut verdict = judged.final_json();
    for piece in verdict["pieces"].as_array_mut().into_iter().flatten() {
        let text = abridge(piece["text"].as_str().unwrap_or_default(), SHOWN).into_owned();
        piece["text"] = text.into();
    }
    Some(json!({
        "number": number,
        "set": set,
        "title": rules.labels().title,
        "seats": rules.labels().seats,
        "game": episode.extra.get("game").and_then(Value::as_u64),
        rules.labels().item_key: abridge(&episode.item, SHOWN),
        "max_turns": episode.max_turns,
        "players": episode.extra.get("players").and_then(Value::as_str).map(|players| abridge(players, SHOWN)),
        "history": history_json(episode, SHOWN),
        "position": position::of_record(episode, rules, SHOWN),
        "verdict": verdict,
    }))
}
