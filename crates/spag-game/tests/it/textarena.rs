//! The native games play as TextArena 0.7.4 does, step by step. `scripts/textarena-fixtures.py` records its games.

use serde_json::{Map, Value, json};
use spag_game::games::{DataKind, data_kind};
use spag_game::session::{Reply, Session};
use spag_game::{GameData, Labels, games};

/// The data that a game needs.
pub(crate) fn data_of(game: &str) -> Option<GameData> {
    let file = match data_kind(game).unwrap() {
        DataKind::None => None,
        DataKind::Words => Some("games/words.txt"),
        DataKind::Facts => Some("games/facts.json"),
    };
    file.map(|file| GameData::read(game, spag_tests::fixture(file)).unwrap())
}

pub(crate) fn session(game: &str) -> Session {
    Session::new(game, data_of(game)).unwrap()
}

pub(crate) fn answer(session: &mut Session, request: &Value) -> Value {
    let Reply::Line(line) = session.respond(request.to_string().as_bytes()) else { panic!("no answer to {request}") };
    assert!(!line.contains('\n'));
    serde_json::from_str(&line).unwrap()
}

/// The messages of an answer, as the fixture has them.
fn letters(answer: &Value) -> String {
    let letter = |message: &Value| {
        let from = match message["from"].as_i64().unwrap() {
            -1 => "g".to_owned(),
            player => player.to_string(),
        };
        let kind = message["kind"].as_str().unwrap();
        assert!(kind != "prompt" || message["text"].as_str().unwrap().len() > 100);
        from + if kind == "admin" { "r" } else { &kind[..1] }
    };
    answer["observations"].as_array().unwrap().iter().map(letter).collect()
}

fn update(all: &mut Map<String, Value>, changed: &Value) {
    for (key, value) in changed.as_object().unwrap() {
        if value == "-" {
            all.remove(key);
        } else {
            all.insert(key.clone(), value.clone());
        }
    }
}

/// Plays a recorded game; what differs first.
fn replay(game: &Value) -> Result<(), String> {
    let mut session = session(game["game"].as_str().unwrap());
    let (mut state, mut private) = (Map::new(), [Map::new(), Map::new()]);
    for (number, step) in game["steps"].as_array().unwrap().iter().enumerate() {
        let request = match &step[0] {
            Value::Null => json!({"type": "reset", "seed": game["seed"], "options": game["options"]}),
            action => json!({"type": "step", "action": action}),
        };
        let answer = answer(&mut session, &request);
        if answer["type"] == "error" {
            return Err(format!("step {number}: {answer}"));
        }
        update(&mut state, &step[4]);
        let mut expected = json!({
            "player": step[1],
            "done": step[1].is_null(),
            "invalid": step[2] != 0,
            "refusal": if step[2] == 0 { Value::Null } else { step[2].clone() },
            "state": state,
        });
        if let Some(player) = step[1].as_u64() {
            update(&mut private[player as usize], &step[5]);
            expected["private"] = json!(private[player as usize]);
        } else {
            expected["rewards"] = json!({"0": game["rewards"][0], "1": game["rewards"][1]});
            expected["reason"] = game["reason"].clone();
        }
        for (key, value) in expected.as_object().unwrap() {
            if answer[key] != *value {
                return Err(format!("step {number}: {key}: {} instead of {value} in {answer}", answer[key]));
            }
        }
        if letters(&answer) != step[3] {
            return Err(format!("step {number}: messages {} instead of {}", letters(&answer), step[3]));
        }
    }
    Ok(())
}

#[test]
fn native_games_play_as_textarena() {
    let recorded = std::fs::read_to_string(spag_tests::fixture("games/textarena.jsonl")).unwrap();
    let mut played = Map::new();
    for (number, line) in recorded.lines().enumerate() {
        let game: Value = serde_json::from_str(line).unwrap();
        replay(&game).unwrap_or_else(|problem| panic!("line {}: {problem}\n{line}", number + 1));
        let count = played.entry(game["game"].as_str().unwrap()).or_insert(json!(0));
        *count = json!(count.as_u64().unwrap() + 1);
    }
    let native = |labels: &&Labels| labels.name != "taboo";
    assert!(games::labels().filter(native).all(|labels| played[labels.name].as_u64() >= Some(20)), "{played:?}");
}
