//! Games as the page sends them: the whole game with each request, judged by spag-game's referee.

mod endpoint;
mod judged;
mod offered;
pub(crate) mod position;
mod preview;
mod thoughts;
mod turn;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use spag_game::{Episode, Match, ReasoningEnd, Said, Seat, Utterance, UtteranceView, taboo, with_own_reasoning};
use spag_io::{Limits as _, ReasoningRule, TurnPrompt, cause};
use spag_selfplay::limits;
use spag_serve::ApiError;

pub use endpoint::PageEndpoint;
pub(crate) use endpoint::stream as stream_of_endpoint;
pub(crate) use judged::Judged;
pub(crate) use offered::{Offered, PlayedGames};
use position::{NoPosition, Position};
use thoughts::{Thought, Thoughts};
pub(crate) use turn::{PlayRules, Splitting, stream};

/// Characters of a target word, as in lists of words.
const WORD: usize = 200;
/// Characters that a person can say at once.
pub(crate) const SAID_BY_PERSON: usize = 2000;
/// Characters of a model's utterance that are accepted back.
const SAID_BY_MODEL: usize = 100_000;

/// Utterances of a game other than Adversarial Taboo, which is played again with every request.
const MAX_UTTERANCES: usize = 2000;

/// A game of Adversarial Taboo so far.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GameSoFar {
    target_word: String,
    max_turns: usize,
    seed: u64,
    temperature: Option<f64>,
    players: Players,
    history: Vec<Uttered>,
    /// Whether the person who plays gave up.
    #[serde(default)]
    gave_up: bool,
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
struct Uttered {
    #[serde(rename = "role")]
    seat: Seat,
    content: String,
    /// As in records. No player is shown it, so it is not needed.
    reasoning: Option<String>,
    reasoning_end: Option<ReasoningEnd>,
}

/// The name of the game, by which the two kinds of requests differ.
#[derive(Deserialize)]
struct Named {
    game_name: Option<IgnoredAny>,
}

/// Another game so far.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedSoFar {
    game_name: String,
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
    game_options: Map<String, Value>,
    seed: u64,
    temperature: Option<f64>,
    /// The model of each seat, or null for a person.
    players: BTreeMap<String, Option<String>>,
    history: Vec<Uttered>,
    #[serde(default)]
    gave_up: bool,
}

/// A game that follows the rules so far.
#[derive(Clone, Debug)]
pub(crate) struct Game {
    kind: Arc<dyn spag_game::Game>,
    pub(crate) episode: Episode,
    /// Seed of the game.
    pub(crate) seed: u64,
    /// The temperature of models, if it is not that of the page.
    pub(crate) temperature: Option<f64>,
    players: BTreeMap<Seat, String>,
    /// Whether the person who plays gave up, which ends the game.
    pub(crate) gave_up: bool,
    thoughts: Thoughts,
}

impl Game {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// The body is not a game; the error names the field.
    pub(crate) fn read(body: &[u8], games: &PlayedGames) -> Result<Self, ApiError> {
        if let Ok(Named { game_name: Some(_) }) = serde_json::from_slice(body) {
            return parse::<NamedSoFar>(body)?.check(games);
        }
        parse::<GameSoFar>(body)?.check(games)
    }

    /// The model that plays a seat; `None` for a person.
    pub(crate) fn model(&self, seat: Seat) -> Option<&str> {
        self.players.get(&seat).map(String::as_str)
    }

    /// The verdict so far.
    ///
    /// # Errors
    /// The episode is not one of its game.
    pub(crate) fn judge(&self) -> Result<Judged, ApiError> {
        Judged::of(&self.episode, &*self.kind).map_err(|error| ApiError::bad(error.to_string()))
    }

    /// The game as far as it was played.
    ///
    /// # Errors
    /// An utterance is not that of the seat to move; the error names its field.
    pub(crate) fn position(&self) -> Result<Position<'_>, ApiError> {
        Position::of(&*self.kind, &self.episode, self.seed).map_err(|error| match error {
            NoPosition::Game(error) => ApiError::bad(error.to_string()),
            NoPosition::Turn { at, found, expected } => {
                ApiError::field(format!("history[{at}].role"), format!("expected {expected}, not {found}, to move"))
            }
        })
    }

    /// The seats of persons.
    fn persons(&self) -> Vec<Seat> {
        self.kind.labels().seats.into_iter().filter(|seat| !self.players.contains_key(seat)).collect()
    }

    /// Whether models play alone.
    pub(crate) fn is_watched(&self) -> bool {
        self.persons().is_empty()
    }

    /// What tells the game from others, without its history.
    fn identity(&self) -> Value {
        let Episode { item, max_turns, extra, .. } = &self.episode;
        let players: Vec<_> = self.players.iter().collect();
        json!([self.kind.labels().name, item, max_turns, extra, self.seed, self.temperature, players])
    }

    /// Adds what the model of a seat said, and keeps its reasoning.
    pub(crate) fn add(&mut self, seat: Seat, Said { text, reasoning, reasoning_end, .. }: Said) {
        self.episode.history.push(Utterance { reasoning_end, ..Utterance::new(seat, text) });
        if reasoning.is_some() || reasoning_end.is_some() {
            self.thoughts.keep(&self.identity(), &self.episode.history, Thought { reasoning, reasoning_end });
        }
    }

    /// The prompt of a seat. With a rule its own utterances follow their reasoning, as far as that is kept.
    fn prompt(&self, state: &dyn Match, seat: Seat, kept: Option<&ReasoningRule>) -> TurnPrompt {
        let prompt = state.prompt(seat, &self.episode);
        let Some(rule) = kept else { return prompt };
        let mut history: Vec<UtteranceView<'_>> = self.episode.history.iter().map(UtteranceView::from).collect();
        for (at, thought) in self.thoughts.of(&self.identity(), &self.episode.history, 0) {
            history[at].reasoning = thought.reasoning.map(Cow::Owned);
        }
        with_own_reasoning(prompt, seat, &history, rule)
    }

    /// What the page is told: the verdict; of games with messages the position as the person who plays sees it; and the reasoning
    /// of models, unless a person still plays. While the game goes on it is that of utterances from index `from` on.
    ///
    /// # Errors
    /// As [`Game::judge`] and [`Game::position`].
    pub(crate) fn json(&self, from: usize) -> Result<Map<String, Value>, ApiError> {
        let mut body = Map::new();
        let (position, judged) = (self.position()?, self.judge()?);
        body.insert("verdict".into(), judged.json());
        let is_over = judged.is_over || self.gave_up;
        if is_over || self.is_watched() {
            let from = if is_over { 0 } else { from };
            let thoughts = self.thoughts.of(&self.identity(), &self.episode.history, from);
            if !thoughts.is_empty() {
                body.insert("thoughts".into(), thoughts.iter().map(thought_json).collect());
            }
        }
        let reader = match self.persons()[..] {
            [person] => Some(person),
            _ => None,
        };
        match position.json(reader, SAID_BY_MODEL) {
            Value::Null => {}
            shown => {
                body.insert("position".into(), shown);
            }
        }
        Ok(body)
    }
}

fn thought_json((utterance, thought): &(usize, Thought)) -> Value {
    let mut shown = json!(thought);
    shown["utterance"] = (*utterance).into();
    shown
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad(format!("The game is invalid: {}", cause::<T>(body, "body", &error))))
}

impl NamedSoFar {
    fn check(self, games: &PlayedGames) -> Result<Game, ApiError> {
        let Self { game_name, game_options, seed, temperature, players: given, history, gave_up } = self;
        check_temperature(temperature)?;
        let kind = games
            .open(&game_name, &game_options)
            .map_err(|error| ApiError::field("game_name", spag_io::quote(&error.to_string())))?;
        let seats = kind.labels().seats;
        let mut players = BTreeMap::new();
        if let Some(unknown) = given.keys().find(|name| seats.iter().all(|seat| seat.name() != *name)) {
            let problem = format!("this game has no seat {}", spag_io::quote(unknown));
            return Err(ApiError::field("players", problem));
        }
        for seat in seats {
            match given.get(seat.name()) {
                Some(Some(model)) => drop(players.insert(seat, model.clone())),
                Some(None) => {}
                None => return Err(ApiError::field(format!("players.{seat}"), "it is missing; null is a person")),
            }
        }
        if history.len() > MAX_UTTERANCES {
            let problem = format!("{} utterances are more than {MAX_UTTERANCES}", history.len());
            return Err(ApiError::field("history", problem));
        }
        let mut episode = Episode::new("", 0);
        episode.extra.insert("seed".into(), seed.into());
        episode.extra.extend(kind.record_keys());
        for (at, said) in history.into_iter().enumerate() {
            episode.history.push(said.check(at, &players)?);
        }
        let thoughts = games.thoughts().clone();
        let game = Game { kind, episode, seed, temperature, players, gave_up, thoughts };
        game.position()?;
        Ok(game)
    }
}

/// Checks the temperature of models.
fn check_temperature(temperature: Option<f64>) -> Result<(), ApiError> {
    let limits = limits::Temperature;
    match temperature {
        Some(temperature) if !limits.allow(temperature) => Err(ApiError::field("temperature", limits.expected())),
        Some(_) | None => Ok(()),
    }
}

impl Uttered {
    /// The utterance at an index. Its length is that of a person or a model.
    fn check(self, at: usize, players: &BTreeMap<Seat, String>) -> Result<Utterance, ApiError> {
        let Self { seat, content, reasoning, reasoning_end } = self;
        let field = |name: &str, problem: String| Err(ApiError::field(format!("history[{at}].{name}"), problem));
        let is_person = !players.contains_key(&seat);
        let most = if is_person { SAID_BY_PERSON } else { SAID_BY_MODEL };
        let reasoning = reasoning.unwrap_or_default();
        for (name, text, most) in [("content", &content, most), ("reasoning", &reasoning, SAID_BY_MODEL)] {
            let length = text.chars().count();
            if length > most {
                return field(name, format!("it has {length} characters; the most is {most}"));
            }
        }
        if is_person && content.trim().is_empty() {
            return field("content", "it is empty; say something".into());
        }
        // An utterance that says something is played, whatever its reasoning was.
        let reasoning_end = reasoning_end.filter(|_| content.is_empty());
        Ok(Utterance { reasoning_end, ..Utterance::new(seat, content) })
    }
}

impl GameSoFar {
    fn check(self, games: &PlayedGames) -> Result<Game, ApiError> {
        let Self { target_word, max_turns, seed, temperature, players, history, gave_up } = self;
        check_temperature(temperature)?;
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
            seats.into_iter().filter_map(|(seat, name)| Some((seat, name?))).collect();
        let mut episode = Episode::new(target_word, max_turns);
        for (at, said) in history.into_iter().enumerate() {
            let seat = said.seat;
            if seat != taboo::seat_at(at) {
                let problem = format!("expected {}, not {seat}: players speak in turn", taboo::seat_at(at));
                return Err(ApiError::field(format!("history[{at}].role"), problem));
            }
            episode.history.push(said.check(at, &players)?);
        }
        let thoughts = games.thoughts().clone();
        Ok(Game { kind: games.taboo(), episode, seed, temperature, players, gave_up, thoughts })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn game(change: impl FnOnce(&mut Value)) -> Result<Game, ApiError> {
        let mut body = json!({
            "target_word": "tiger", "max_turns": 5, "seed": 7, "players": {"attacker": null, "defender": "m"},
            "history": [{"role": "attacker", "content": "It has stripes."}],
        });
        change(&mut body);
        Game::read(body.to_string().as_bytes(), &PlayedGames::default())
    }

    #[test]
    fn games_that_break_the_form_are_refused_by_field() {
        let read = game(|_| ()).unwrap();
        assert_eq!((read.model(taboo::ATTACKER), read.model(taboo::DEFENDER)), (None, Some("m")));
        let say = |role: &str, content: String| json!({"role": role, "content": content});
        let cases: [(&str, Value, &str); 14] = [
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
            ("temperature", json!(-1), "temperature: "),
            ("temperature", json!("hot"), "temperature: invalid type"),
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

    /// A game that goes on after `said` by `m`, which thought "A tiger?".
    fn thoughtful(games: &PlayedGames, attacker: Value) -> Game {
        let mut game = Game::read(request(&attacker, &["It has stripes."]).as_bytes(), games).unwrap();
        game.add(taboo::DEFENDER, Said { reasoning: Some("A tiger?".into()), ..Said::from("Is it a cat?") });
        game
    }

    fn request(attacker: &Value, said: &[&str]) -> String {
        let history = said.iter().enumerate().map(|(at, text)| {
            // What a page knows may come back.
            json!({"role": taboo::seat_at(at), "content": text, "reasoning": "x", "reasoning_end": "forced"})
        });
        let players = json!({"attacker": attacker, "defender": "m"});
        let history: Vec<Value> = history.collect();
        json!({"target_word": "tiger", "max_turns": 5, "seed": 7, "players": players, "history": history}).to_string()
    }

    #[test]
    fn reasoning_is_told_once_no_person_plays_against_it() {
        let games = PlayedGames::default();
        let thoughts = |game: &Game| game.json(1).unwrap().get("thoughts").cloned();
        let shown = json!([{"utterance": 1, "reasoning": "A tiger?"}]);
        assert_eq!(thoughts(&thoughtful(&games, Value::Null)), None);
        let read = |body: &str| thoughts(&Game::read(body.as_bytes(), &games).unwrap());
        let said = ["It has stripes.", "Is it a cat?", "No.", "I know the word! It is zebra!"];
        assert_eq!(read(&request(&Value::Null, &said[..3])), None);
        assert_eq!(read(&request(&Value::Null, &said)), Some(shown.clone()));
        let mut given_up: Value = serde_json::from_str(&request(&Value::Null, &said[..3])).unwrap();
        given_up["gave_up"] = true.into();
        assert_eq!(read(&given_up.to_string()), Some(shown.clone()));
        given_up["seed"] = 8.into();
        assert_eq!(read(&given_up.to_string()), None);
        // Without persons it is told at once, and later only what is new.
        let watched = thoughtful(&games, "n".into());
        assert_eq!((thoughts(&watched), watched.json(2).unwrap().get("thoughts")), (Some(shown.clone()), None));
        assert_eq!(read(&request(&"n".into(), &said)), Some(shown));
    }

    #[test]
    fn own_reasoning_that_is_kept_is_in_the_prompts_of_its_seat_alone() {
        let mut game = thoughtful(&PlayedGames::default(), Value::Null);
        game.episode.history.push(Utterance::new(taboo::ATTACKER, "No."));
        let rule = ReasoningRule::Think("( )".parse().unwrap());
        let shown = |seat: Seat, kept: Option<&ReasoningRule>| match game.prompt(
            &*game.position().unwrap().state,
            seat,
            kept,
        ) {
            TurnPrompt::Plain(text) => text.text().to_owned(),
            TurnPrompt::Chat(messages) => panic!("{messages:?}"),
        };
        let own = shown(taboo::DEFENDER, Some(&rule));
        assert!(own.contains("(A tiger?)Is it a cat?"), "{own}");
        assert!(!shown(taboo::DEFENDER, None).contains("A tiger?"));
        assert!(!shown(taboo::ATTACKER, Some(&rule)).contains("A tiger?"));
    }

    #[test]
    fn reasoning_that_comes_back_is_bounded() {
        let said = |key: &str, value: Value| {
            game(|body| {
                body["history"] = json!([{"role": "attacker", "content": "x"}, {"role": "defender", "content": ""}]);
                body["history"][1][key] = value;
            })
        };
        let unfinished = said("reasoning_end", "unfinished".into()).unwrap();
        assert_eq!(unfinished.episode.history[1].reasoning_end, Some(ReasoningEnd::Unfinished));
        said("reasoning", "y".repeat(SAID_BY_MODEL).into()).unwrap();
        for (key, value) in [("reasoning", "y".repeat(SAID_BY_MODEL + 1)), ("reasoning_end", "never".into())] {
            let error = said(key, value.into()).unwrap_err().body().to_string();
            assert!(error.contains("history[1].reasoning"), "{error}");
        }
    }

    #[test]
    fn lone_surrogates_are_refused() {
        let body = br#"{"target_word": "\ud800", "max_turns": 5}"#;
        let error = Game::read(body, &PlayedGames::default()).unwrap_err().body().to_string();
        assert!(error.contains("hex escape (column 24 of the body)"), "{error}");
    }
}
