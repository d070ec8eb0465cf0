//! What judges read of a record, from an episode in memory and from a row of a file.

use serde_json::{Map, Value, json};
use spag_game::{Episode, EpisodeView, Seat, Transcript, taboo};

/// A record with these keys beside those of every game.
fn record(keys: Value) -> String {
    let mut record = json!({"history": [{"role": "attacker", "content": "Hi."}], "target_word": "tiger"});
    record.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    record.to_string()
}

/// The keys as a row of a file and as an episode that was read have them, which is the same.
fn read(keys: Value) -> (u64, Option<String>, Option<Transcript>, usize) {
    let text = record(keys);
    let row: EpisodeView<'_> = serde_json::from_str(&text).unwrap();
    let episode: Episode = serde_json::from_str(&text).unwrap();
    assert_eq!(row, episode.view(), "{text}");
    assert_eq!((&*row.item, row.history.len()), ("tiger", 1));
    (row.seed, row.game_name, row.transcript, row.max_turns)
}

#[test]
fn keys_of_judges_are_read() {
    let transcript =
        Transcript { told: vec![Vec::new()], ending: "won".into(), winner: Some(1), reason: "a full row".into() };
    let keys = json!({"seed": 7, "game_name": "nim", "max_turns": 3, "transcript": transcript});
    assert_eq!(read(keys), (7, Some("nim".into()), Some(transcript), 3));
    assert_eq!(read(json!({})), (0, None, None, Episode::TURNS));
}

#[test]
fn keys_of_other_programs_are_not_taken_for_those_of_judges() {
    let none = (0, None, None, Episode::TURNS);
    for keys in [
        json!({"seed": "7", "game_name": 7, "transcript": "long", "max_turns": null}),
        json!({"seed": -1, "game_name": null, "transcript": {"told": 3}}),
        json!({"seed": 1.5, "game_name": ["nim"], "transcript": null, "game_options": {"piles": [1]}}),
    ] {
        assert_eq!(read(keys.clone()), none, "{keys}");
    }
}

#[test]
fn game_of_an_episode_has_its_options() {
    let game = |keys| {
        let episode: Episode = serde_json::from_str(&record(keys)).unwrap();
        episode.game().map(|(name, options)| (name.to_owned(), options))
    };
    let piles = Map::from_iter([("piles".to_owned(), json!([1, 2]))]);
    assert_eq!(game(json!({"game_name": "nim", "game_options": {"piles": [1, 2]}})), Some(("nim".into(), piles)));
    assert_eq!(game(json!({"game_name": "nim", "game_options": 3})), Some(("nim".into(), Map::new())));
    assert_eq!(game(json!({"game_name": "nim"})), Some(("nim".into(), Map::new())));
    assert_eq!(game(json!({"game_name": 3, "game_options": {}})), None);
}

#[test]
fn utterances_are_appended_in_order_and_all_keys_survive() {
    let text = record(json!({"seed": 7, "rating": {"by": "hand"}}));
    let mut episode: Episode = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&episode).unwrap()["rating"], json!({"by": "hand"}));
    episode.push(taboo::DEFENDER, "Hello.");
    let said: Vec<(Seat, &str)> = episode.history.iter().map(|said| (said.seat, said.content.as_str())).collect();
    assert_eq!(said, [(taboo::ATTACKER, "Hi."), (taboo::DEFENDER, "Hello.")]);
}
