//! Properties of all games through the session of `spag env`, and its errors.

use proptest::prelude::*;
use serde_json::{Value, json};
use spag_game::games;
use spag_game::session::{Reply, Session};

use crate::textarena::{answer, session};

/// Texts that patterns are hostile to, and a few actions of each game.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "[",
            "]",
            "[[",
            "]]",
            " ",
            "\n",
            "\u{1f}",
            "\u{85}",
            "\u{200b}",
            "[GAME]",
            "[Player 0]",
            "[Player 1]",
            "[Deceiver]",
            "0",
            "1",
            "2",
            "4",
            "٣",
            "９",
            "𝟎",
            "²",
            "99999999999999999999999",
            "-1",
            ",",
            ":",
            "->",
            ".",
            "[check]",
            "[BET]",
            "[fold]",
            "[call]",
            "[chec\u{212a}]",
            "[bıd: 1, 2]",
            "[bid",
            "[col ",
            "[0 1]",
            "[1 1]",
            "[2 1]",
            "[0]",
            "[3]",
            "[8]",
            "[offer: 1 wheat -> 1 ore]",
            "[offer",
            "[accept]",
            "[fact 1]",
            "[fact 2]",
            "I know the word! It is river.",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_text_is_answered(
        game in prop::sample::select(games::labels().map(|labels| labels.name).collect::<Vec<_>>()),
        seed: u64,
        texts in prop::collection::vec(text(), 1..60),
    ) {
        let (mut one, mut other) = (session(game), session(game));
        // A reset depends on the seed alone, not on an earlier game.
        answer(&mut other, &json!({"type": "reset", "seed": seed ^ 1}));
        answer(&mut other, &json!({"type": "step", "action": texts[0]}));
        let reset = json!({"type": "reset", "seed": seed});
        let mut last = answer(&mut one, &reset);
        prop_assert_eq!(&last, &answer(&mut other, &reset));
        for text in texts {
            let step = json!({"type": "step", "action": text});
            let now = answer(&mut one, &step);
            prop_assert_eq!(&now, &answer(&mut other, &step));
            prop_assert_eq!(&now["type"], "observation");
            if now["done"] == true {
                let rewards = [&now["rewards"]["0"], &now["rewards"]["1"]].map(|reward| reward.as_i64().unwrap());
                prop_assert!(rewards == [0, 0] || rewards[0] + rewards[1] == 0 && rewards[0].abs() == 1);
                prop_assert_eq!(&now["observations"], &json!([]));
                prop_assert!(now["player"].is_null() && now["private"].is_null() && now["reason"].is_string());
                prop_assert_eq!(&answer(&mut one, &step)["code"], "SESSION_ERROR");
                break;
            }
            prop_assert!(now["rewards"].is_null() && now["reason"].is_null());
            prop_assert!(!now["observations"].as_array().unwrap().is_empty());
            prop_assert_eq!(now["invalid"] == true, now["refusal"].is_string());
            if now["invalid"] == true {
                prop_assert_eq!(&now["player"], &last["player"]);
                // The parts of a negotiation's action are accepted or refused each alone.
                if game != "simple-negotiation" {
                    prop_assert_eq!(&now["state"], &last["state"]);
                    prop_assert_eq!(&now["private"], &last["private"]);
                }
            }
            last = now;
        }
    }

    #[test]
    fn every_line_is_answered(line in prop::collection::vec(any::<u8>(), 0..80), json in "[\\[{]\\PC{0,40}") {
        let mut session = session("nim");
        for line in [&line[..], json.as_bytes()] {
            let Reply::Line(answer) = session.respond(line) else { panic!() };
            prop_assert!(serde_json::from_str::<Value>(&answer).unwrap()["code"].is_string());
        }
    }
}

/// Games that list their legal actions accept each of them.
#[test]
fn legal_actions_are_accepted() {
    let mut listed = 0;
    for labels in games::labels() {
        let mut session = session(labels.name);
        for seed in 0..40usize {
            answer(&mut session, &json!({"type": "reset", "seed": seed}));
            for turn in 0.. {
                let Some(legal) = session.legal_actions() else { break };
                let action = &legal[(seed * 7 + turn * 3) % legal.len()];
                let now = answer(&mut session, &json!({"type": "step", "action": action}));
                assert_eq!(now["invalid"], false, "{}: {action}: {now}", labels.name);
                listed += 1;
            }
        }
    }
    assert!(listed > 500, "{listed}");
}

#[test]
fn errors_change_nothing_and_have_codes() {
    let mut kuhn = session("kuhn-poker");
    let code = |session: &mut Session, line: &str| {
        let Reply::Line(line) = session.respond(line.as_bytes()) else { panic!("{line}") };
        serde_json::from_str::<Value>(&line).unwrap()["code"].as_str().map(str::to_owned)
    };
    assert_eq!(code(&mut kuhn, r#"{"type":"step","action":"x"}"#).as_deref(), Some("SESSION_ERROR"));
    assert_eq!(code(&mut kuhn, r#"{"type":"reset","seed":18446744073709551615,"other":[]}"#), None);
    let invalid = ["", " ", "null", "[]", "1", "{", "{}x", "\"reset\"", "{'type':'reset'}", "\u{feff}{}"];
    let unknown = ["{}", r#"{"type":1}"#, r#"{"type":"state"}"#, r#"{"type":"Reset"}"#];
    let refused = [
        r#"{"type":"step"}"#,
        r#"{"type":"step","action":null}"#,
        r#"{"type":"step","action":["[bet]"]}"#,
        r#"{"type":"reset","seed":-1}"#,
        r#"{"type":"reset","seed":18446744073709551616}"#,
        r#"{"type":"reset","seed":1.0}"#,
        r#"{"type":"reset","seed":"1"}"#,
        r#"{"type":"reset","seed":true}"#,
        r#"{"type":"reset","options":null}"#,
        r#"{"type":"reset","options":[]}"#,
        r#"{"type":"reset","options":{"rounds":0}}"#,
        r#"{"type":"reset","options":{"rounds":100}}"#,
        r#"{"type":"reset","options":{"rounds":3.0}}"#,
        r#"{"type":"reset","options":{"rounds":true}}"#,
        r#"{"type":"reset","options":{"bets_count":1}}"#,
        r#"{"type":"reset","options":{"winner":"nobody"}}"#,
        r#"{"type":"reset","options":{"error_allowance":-1}}"#,
        r#"{"type":"reset","options":{"round":3}}"#,
    ];
    for (lines, expected) in
        [(&invalid[..], "INVALID_JSON"), (&unknown[..], "UNKNOWN_TYPE"), (&refused[..], "VALIDATION_ERROR")]
    {
        for line in lines {
            assert_eq!(code(&mut kuhn, line).as_deref(), Some(expected), "{line}");
        }
    }
    let on = answer(&mut kuhn, &json!({"type": "step", "action": "[check]"}));
    assert_eq!((&on["player"], &on["invalid"]), (&json!(0), &json!(false)));
    // The type of an action is checked before whether a game is on.
    assert_eq!(code(&mut session("nim"), r#"{"type":"step","action":1}"#).as_deref(), Some("VALIDATION_ERROR"));
    assert_eq!(kuhn.respond(br#"{"type":"close"}"#), Reply::Close);
    let message = kuhn.respond(br#"{"type":"reset","options":{"round":3}}"#);
    assert!(matches!(message, Reply::Line(line) if line.contains("did you mean \\\"rounds\\\"?")));
}

#[test]
fn options_have_ranges() {
    for (game, accepted, refused) in [
        ("tic-tac-toe", json!([{"error_allowance": 0}, {}]), json!([{"rounds": 3}, {"error_allowance": 100}])),
        ("connect-four", json!([{"rows": 4, "cols": 20}]), json!([{"rows": 3}, {"cols": 21}, {"rows": "6"}])),
        ("nim", json!([{"piles": [1, 99]}]), json!([{"piles": []}, {"piles": [0]}, {"piles": [100]}, {"piles": 3}])),
        ("nim", json!([{"piles": vec![1; 16]}]), json!([{"piles": vec![1; 17]}])),
        ("liars-dice", json!([{"dice": 1}, {"dice": 20}]), json!([{"dice": 0}, {"dice": 21}])),
        ("dont-say-it", json!([{"max_turns": 2}, {"max_turns": 200}]), json!([{"max_turns": 1}, {"max_turns": 201}])),
        ("truth-and-deception", json!([{"max_turns": 200}]), json!([{"max_turns": 3}, {"max_turns": 0}])),
        ("simple-negotiation", json!([{"goods": 2}, {"max_turns": 3}]), json!([{"goods": 3}, {"max_turns": 1}])),
        ("taboo", json!([{"max_turns": 1}]), json!([{"max_turns": 0}, {"judge": "paper"}])),
    ] {
        let mut session = session(game);
        for (all, kind) in [(accepted, "observation"), (refused, "error")] {
            for options in all.as_array().unwrap() {
                let found = answer(&mut session, &json!({"type": "reset", "seed": 1, "options": options}));
                assert_eq!(found["type"], kind, "{game} {options}: {found}");
            }
        }
    }
}

#[test]
fn taboo_has_words_turns_and_endings() {
    let mut taboo = session("taboo");
    let mut played = |seed: u64, said: &[&str]| {
        let mut last = answer(&mut taboo, &json!({"type": "reset", "seed": seed, "options": {"max_turns": 2}}));
        let word = last["private"]["word"].as_str().unwrap().to_owned();
        assert_eq!(last["state"], json!({"max_turns": 2, "turn": 0}));
        for text in said {
            last = answer(&mut taboo, &json!({"type": "step", "action": text.replace("WORD", &word)}));
        }
        last
    };
    for (said, reason, first) in [
        (&["a thing", "I know the word! It is WORD!"][..], "guess_right", -1),
        (&["a thing", "I know the word! It is nothing!"], "guess_wrong", 1),
        (&["a thing", "WORD"], "said", 1),
        (&["WORD"], "rule_broken", -1),
        (&["a", "b", "c", "d"], "turn_limit", 0),
    ] {
        // Index 0 of the words is a plain one.
        let seed = (0..).find(|seed| played(*seed, &[])["private"]["word"] == "apple").unwrap();
        let last = played(seed, said);
        assert_eq!((&last["reason"], &last["rewards"]["0"]), (&json!(reason), &json!(first)), "{last}");
    }
    assert_eq!(played(3, &["a"])["private"], json!({}));
}

#[test]
fn games_without_their_data_are_refused() {
    for name in ["taboo", "dont-say-it", "truth-and-deception"] {
        assert!(Session::new(name, None).unwrap_err().to_string().starts_with(&format!("{name}: it needs a ")));
    }
    let words = spag_tests::fixture("games/words.txt");
    let refused = spag_game::GameData::read("nim", &words).unwrap_err();
    assert_eq!(refused.to_string(), "nim: it takes no data, its seed decides everything");
    let no_facts = spag_game::GameData::read("truth-and-deception", &words).unwrap_err();
    assert!(no_facts.to_string().contains("words.txt: line 1: no list of facts"), "{no_facts}");
    let unknown = Session::new("kuhnpoker", None).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown game \"kuhnpoker\"; did you mean \"kuhn-poker\"?");
}

/// Two goods, and rounds whose last winner wins: SPIRAL's variants.
#[test]
fn variants_of_spiral() {
    let mut market = session("simple-negotiation");
    let start = answer(&mut market, &json!({"type": "reset", "seed": 5, "options": {"goods": 2}}));
    assert_eq!(start["private"]["resources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["Wood", "Gold"]);
    let offered = answer(&mut market, &json!({"type": "step", "action": "[offer: 1 gold -> 2 Woods]"}));
    assert_eq!(offered["state"]["offer"], json!({"from": 0, "offered": {"Gold": 1}, "requested": {"Wood": 2}}));
    let mut kuhn = session("kuhn-poker");
    let options = json!({"rounds": 3, "winner": "last_round"});
    answer(&mut kuhn, &json!({"type": "reset", "seed": 1, "options": options}));
    // Player 0 wins two rounds, player 1 the last one.
    let folds = ["[bet]", "[call]", "[bet]", "[fold]", "[bet]", "[fold]"];
    let mut last = Value::Null;
    for action in folds {
        last = answer(&mut kuhn, &json!({"type": "step", "action": action}));
    }
    assert_eq!((&last["reason"], &last["rewards"]["1"]), (&json!("chips"), &json!(1)), "{last}");
}

#[test]
fn abandoned_game_has_no_result() {
    let mut nim = session("nim");
    assert_eq!(nim.legal_actions(), None);
    let reset = json!({"type": "reset", "seed": 1, "options": {"piles": [1]}});
    answer(&mut nim, &reset);
    assert_eq!(nim.legal_actions(), Some(vec!["[0 1]".to_owned()]));
    // For those who debug a game.
    assert!(format!("{nim:?}").contains("NativeMatch"), "{nim:?}");
    nim.abandon();
    assert_eq!(nim.legal_actions(), None);
    assert_eq!(answer(&mut nim, &json!({"type": "step", "action": "[0 1]"}))["code"], "SESSION_ERROR");
    answer(&mut nim, &reset);
    assert_eq!(answer(&mut nim, &json!({"type": "step", "action": "[0 1]"}))["reason"], "last_object");
    // A game of words has no list of actions.
    let mut taboo = session("taboo");
    let first = answer(&mut taboo, &json!({"type": "reset"}));
    assert_eq!(taboo.legal_actions(), None);
    // A seed that is drawn is one that all JSON libraries read exactly, and another one each time.
    let again = answer(&mut taboo, &json!({"type": "reset", "seed": null}));
    let [first, again] = [first, again].map(|reset| reset["seed"].as_u64().unwrap());
    assert!(first.max(again) < 1 << 53 && first.max(again) > 1 && first != again, "{first} {again}");
}
