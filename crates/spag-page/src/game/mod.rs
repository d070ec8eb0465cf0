//! Games as the page sends them: the whole game with each request, judged by spag-game's referee.

mod judged;
mod turn;

use std::collections::BTreeMap;

use serde::Deserialize;
use spag_game::{Episode, Seat, Taboo, taboo};
use spag_io::cause;
use spag_selfplay::limits;
use spag_serve::ApiError;

pub(crate) use judged::Judged;
pub(crate) use turn::{PlayRules, stream};

/// Characters of a target word, as in lists of words.
const WORD: usize = 200;
/// Characters that a person can say at once.
pub(crate) const SAID_BY_PERSON: usize = 2000;
/// Characters of a model's utterance that are accepted back.
const SAID_BY_MODEL: usize = 100_000;

/// A game so far.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GameSoFar {
    target_word: String,
    max_turns: usize,
    seed: u64,
    players: Players,
    history: Vec<Said>,
}

/// Who plays which seat: the name of a model, or null for a person.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Players {
    attacker: Option<String>,
    defender: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    role: Seat,
    content: String,
}

/// A game that follows the rules so far.
#[derive(Clone, Debug)]
pub(crate) struct Game {
    pub(crate) episode: Episode,
    /// Seed of the game.
    pub(crate) seed: u64,
    players: BTreeMap<Seat, String>,
}

impl Game {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// The body is not a game; the error names the field.
    pub(crate) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let game: GameSoFar = serde_json::from_slice(body).map_err(|error| {
            ApiError::bad(format!("The game is invalid: {}", cause::<GameSoFar>(body, "body", &error)))
        })?;
        game.check()
    }

    /// The model that plays a seat; `None` for a person.
    pub(crate) fn model(&self, role: Seat) -> Option<&str> {
        self.players.get(&role).map(String::as_str)
    }

    /// The verdict so far.
    pub(crate) fn judge(&self, rules: &Taboo) -> Result<Judged, ApiError> {
        Judged::of(&self.episode, rules).map_err(|error| ApiError::bad(error.to_string()))
    }
}

impl GameSoFar {
    fn check(self) -> Result<Game, ApiError> {
        let Self { target_word, max_turns, seed, players, history } = self;
        if target_word.trim().is_empty() || target_word.chars().count() > WORD || target_word.contains(char::is_control)
        {
            let problem = format!("expected 1 to {WORD} characters, not only blanks and no control characters");
            return Err(ApiError::field("target_word", problem));
        }
        let turns = limits::TURNS;
        if !turns.contains(&max_turns) {
            let problem = format!("expected {} to {}, not {max_turns}", turns.start(), turns.end());
            return Err(ApiError::field("max_turns", problem));
        }
        if history.len() > 2 * max_turns {
            let problem = format!("{} utterances are more than {max_turns} turns have", history.len());
            return Err(ApiError::field("history", problem));
        }
        let seats = [(taboo::ATTACKER, players.attacker), (taboo::DEFENDER, players.defender)];
        let players: BTreeMap<Seat, String> =
            seats.into_iter().filter_map(|(role, name)| Some((role, name?))).collect();
        let mut episode = Episode::new(target_word, max_turns);
        for (at, Said { role, content }) in history.into_iter().enumerate() {
            let field = |name: &str, problem: String| Err(ApiError::field(format!("history[{at}].{name}"), problem));
            if role != taboo::seat_at(at) {
                return field("role", format!("expected {}, not {role}: players speak in turn", taboo::seat_at(at)));
            }
            let (most, is_person) = match players.contains_key(&role) {
                true => (SAID_BY_MODEL, false),
                false => (SAID_BY_PERSON, true),
            };
            let length = content.chars().count();
            if length > most {
                return field("content", format!("it has {length} characters; the most is {most}"));
            }
            if is_person && content.trim().is_empty() {
                return field("content", "it is empty; say something".into());
            }
            episode.push(role, content);
        }
        Ok(Game { episode, seed, players })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn game(change: impl FnOnce(&mut Value)) -> Result<Game, ApiError> {
        let mut body = json!({
            "target_word": "tiger", "max_turns": 5, "seed": 7, "players": {"attacker": null, "defender": "m"},
            "history": [{"role": "attacker", "content": "It has stripes."}],
        });
        change(&mut body);
        Game::read(body.to_string().as_bytes())
    }

    #[test]
    fn games_that_break_the_form_are_refused_by_field() {
        let read = game(|_| ()).unwrap();
        assert_eq!((read.model(taboo::ATTACKER), read.model(taboo::DEFENDER)), (None, Some("m")));
        let say = |role: &str, content: String| json!({"role": role, "content": content});
        let cases: [(&str, Value, &str); 12] = [
            ("target_word", json!(" "), "target_word: expected 1 to 200"),
            ("target_word", json!("a\u{7}"), "target_word: expected 1 to 200"),
            ("target_word", json!("x".repeat(201)), "target_word: expected 1 to 200"),
            ("max_turns", json!(0), "max_turns: expected 1 to 1000, not 0"),
            ("max_turns", json!(-1), "max_turns: invalid value"),
            ("seed", json!(1.5), "seed: invalid type"),
            ("players", json!({"attacker": 1, "defender": null}), "players.attacker: invalid type"),
            ("history", json!([say("defender", "x".into())]), "history[0].role: expected attacker"),
            ("history", json!([say("attacker", " ".into())]), "history[0].content: it is empty"),
            ("history", json!([say("attacker", "ü".repeat(2001))]), "history[0].content: it has 2001 characters"),
            ("history", json!(vec![say("attacker", "x".into()); 11]), "history: 11 utterances"),
            ("unknown", json!(1), "unknown field"),
        ];
        for (key, value, said) in cases {
            let error = game(|body| body[key] = value).unwrap_err().body().to_string();
            assert!(error.contains(said), "{key}: {error}");
        }
        // A model may say much, or nothing.
        game(|body| body["history"] = json!([say("attacker", "x".into()), say("defender", "y".repeat(10_000))]))
            .unwrap();
        game(|body| body["history"] = json!([say("attacker", "x".into()), say("defender", String::new())])).unwrap();
    }

    #[test]
    fn lone_surrogates_are_refused() {
        let body = br#"{"target_word": "\ud800", "max_turns": 5}"#;
        let error = Game::read(body).unwrap_err().body().to_string();
        assert!(error.contains("hex escape (column 24 of the body)"), "{error}");
    }
}
