//! What judges read of a record, and the names and numbers that records of all versions share.

use rand::SeedableRng;
use serde_json::{Value, json};
use spag_game::{
    DRAW, Episode, EpisodeReader, EpisodeView, FailureCause, Game, GameSpec, Generation, INVALID, JudgeKind, Labels,
    OfSeat, PerEnding, PerSeat, PolicyError, PromptSet, Said, Seat, TokenRecords, TurnContext, TurnFailure,
    UtteranceEnd, UtteranceRule, Verdict, game_seed, taboo,
};
use spag_io::{Classify, ErrorClass, PromptEnd, PromptFormat, ReasoningRule, ReasoningTags};

fn row(keys: &Value) -> String {
    let said = json!([{"role": "player 1", "content": "[0 \"3\"]", "refusal": "format"}]);
    let mut row = json!({"history": said, "target_word": "thé"});
    row.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    row.to_string()
}

/// The same of a row and of the episode in it. Values of another kind, as of other programs, are as absent ones.
#[test]
fn view_of_a_row_is_that_of_its_episode() {
    let told = json!({"told": [], "ending": "won", "winner": 1, "reason": "three in a row"});
    for (keys, turns, seed, name, reason) in [
        (json!({}), 5, 0, None, None),
        (json!({"max_turns": null, "seed": -1, "game_name": 7, "transcript": "x"}), 5, 0, None, None),
        (
            json!({"max_turns": 0, "seed": u64::MAX, "game_name": "nim", "transcript": told}),
            0,
            u64::MAX,
            Some("nim"),
            Some("three in a row"),
        ),
    ] {
        let text = row(&keys);
        let episode: Episode = serde_json::from_str(&text).unwrap();
        let read: EpisodeView<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, episode.view());
        assert_eq!((read.max_turns, read.seed, read.game_name.as_deref()), (turns, seed, name), "{keys}");
        assert_eq!(read.transcript.as_ref().map(|told| told.reason.as_str()), reason, "{keys}");
        assert_eq!((&*read.item, read.history[0].seat, &*read.history[0].content), ("thé", Seat::SECOND, "[0 \"3\"]"));
    }
}

#[test]
fn episode_names_its_game_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    for (keys, named) in [
        (json!({}), None),
        (json!({"game_name": "nim"}), Some(("nim", json!({})))),
        (json!({"game_name": "nim", "game_options": {"piles": [1]}}), Some(("nim", json!({"piles": [1]})))),
    ] {
        std::fs::write(&path, row(&keys)).unwrap();
        let mut reader = EpisodeReader::open_with_rows(&path).unwrap();
        assert_eq!(reader.path(), path);
        let found = reader.game();
        assert_eq!(
            found.map(|(name, options)| (name, Value::from(options))),
            named.map(|(name, of)| (name.to_owned(), of))
        );
        // To look does not read on.
        let (at, episode) = reader.next().unwrap().unwrap();
        assert_eq!((at, episode.game().is_some(), reader.next().is_none()), (1, keys != json!({}), true));
    }
}

/// Values of splitmix64's finaliser, computed by another program: seeds of recorded runs stay what they are.
#[test]
fn seeds_of_games_are_fixed() {
    let seeds = [(0, 0), (0, 1), (7, 0), (7, 3), (u64::MAX, 1_000_000)].map(|(base, number)| game_seed(base, number));
    let fixed = [
        0xa706_dd2f_4d19_7e6f,
        0x7d91_d4c3_fe86_f0de,
        0xb8b4_c297_7eab_ce45,
        0xe756_7ef2_ad75_45b9,
        0x135d_e5ed_9562_8397,
    ];
    assert_eq!(seeds, fixed);
}

#[test]
fn completions_become_utterances_by_their_rule() {
    for (rule, name, utterance) in [
        (UtteranceRule::AsDecoded, "as-decoded", " I know.\n"),
        (UtteranceRule::Trimmed, "trimmed", " I know.\n"),
        (UtteranceRule::Message, "message", "I know."),
    ] {
        let said = rule.said(" I know.\n", &ReasoningRule::None, PromptEnd::Plain);
        assert_eq!((rule.name(), said), (name, Said::from(utterance)));
        let think = ReasoningRule::Think(ReasoningTags::default());
        let said = rule.said("<think>Tea?</think> I know.\n", &think, PromptEnd::Plain);
        assert_eq!(said, Said { reasoning: Some("Tea?".into()), ..Said::from("I know.") });
        assert_eq!(rule.said("Tea?", &think, PromptEnd::Opened).text, "");
        // A chat's is no choice of a file.
        let read = serde_json::from_value::<UtteranceRule>(name.into()).ok();
        assert_eq!(read, Some(rule).filter(|_| rule != UtteranceRule::Message));
    }
}

#[test]
fn tokens_of_an_utterance_are_those_before_its_end() {
    let of =
        |end, ids| TurnContext { prompt: vec![1], rule: UtteranceRule::Trimmed, end }.of_text(ids).map(<[u32]>::to_vec);
    assert_eq!(of(UtteranceEnd::Token, &[5, 6, 2]), Some(vec![5, 6]));
    assert_eq!(of(UtteranceEnd::Token, &[]), None);
    assert_eq!(of(UtteranceEnd::Length, &[5, 6]), Some(vec![5, 6]));
    assert_eq!(of(UtteranceEnd::Text, &[5, 6]), None);
    assert_eq!([true, false].map(TokenRecords::from), [TokenRecords::Kept, TokenRecords::Dropped]);
    // Where they stand is no part of records.
    let context = Some(TurnContext { prompt: vec![1], rule: UtteranceRule::Trimmed, end: UtteranceEnd::Text });
    let written = serde_json::to_string(&Generation { token_ids: vec![5], context, ..Generation::default() }).unwrap();
    let read: Generation = serde_json::from_str(&written).unwrap();
    assert_eq!(read, Generation { token_ids: vec![5], ..Generation::default() });
}

#[test]
fn failures_have_a_class_and_a_cause() {
    let absent = || spag_game::read_episodes("/nowhere/games.jsonl").unwrap_err();
    assert_eq!(absent().class(), ErrorClass::BadInput);
    for (error, class) in [
        (PolicyError::new("down"), ErrorClass::Failure),
        (PolicyError::of_input("no such model"), ErrorClass::BadInput),
        (PolicyError::caused_by(absent()), ErrorClass::BadInput),
    ] {
        assert_eq!(error.class(), class, "{error}");
        let submitted = spag_game::Error::Poll { player: "x".into(), source: error };
        assert_eq!(submitted.class(), class);
    }
    let caused = PolicyError::caused_by(absent());
    assert_eq!(caused.to_string(), absent().to_string());
    assert_eq!(std::error::Error::source(&caused).unwrap().to_string(), absent().to_string());
    assert_eq!(spag_game::Error::DuplicateGame { number: 3 }.class(), ErrorClass::BadInput);
    let unexpected = spag_game::Error::UnexpectedReply { player: "x".into(), number: 3 };
    assert_eq!(unexpected.class(), ErrorClass::Failure);
    assert_eq!(TurnFailure::new("busy").cause(), FailureCause::Player);
    assert_eq!(TurnFailure::of_text("no such token").cause(), FailureCause::Text);
}

#[test]
fn labels_name_seats_and_endings() {
    let labels: &Labels = JudgeKind::Paper.labels();
    assert_eq!(labels.seats.map(|seat| labels.other(seat)), [taboo::DEFENDER, taboo::ATTACKER]);
    assert_eq!([0, 1, 2, 7].map(|at| labels.seat_at(at).index()), [0, 1, 0, 1]);
    assert_eq!(labels.pairing("X", "Y"), "X attacks, Y defends");
    assert_eq!((labels.ending("tie"), labels.ending("draw")), (Some(taboo::TIE), None));
    assert_eq!([taboo::ATTACKER, Seat::SECOND].map(Seat::in_a_sentence), ["the attacker", "player 1"]);
    let nim = spag_game::game_labels("nim").unwrap();
    assert_eq!([labels, nim].map(Labels::has_refusals), [false, true]);
}

#[test]
fn verdicts_reward_the_winner() {
    let (attacker, defender) = (Some(taboo::ATTACKER), Some(taboo::DEFENDER));
    for (verdict, winner, rewarded, rewards) in [
        (Verdict::of(taboo::RIGHT_GUESS, 2), defender, defender, [-1.0, 1.0]),
        (Verdict::of(taboo::BROKEN_RULE, 1), defender, None, [-1.0, 1.0]),
        (Verdict::won_by(taboo::ATTACKER, INVALID, 3), attacker, None, [1.0, -1.0]),
        (Verdict::of(DRAW, 9), None, None, [0.0, 0.0]),
    ] {
        assert_eq!((verdict.winner(), verdict.rewarded_winner()), (winner, rewarded));
        assert_eq!(taboo::LABELS.seats.map(|seat| verdict.reward(seat)), rewards);
    }
    let written = serde_json::to_string(&Verdict::of(taboo::BROKEN_RULE, 1)).unwrap();
    assert_eq!(written, r#"{"outcome":"attacker breaks the rules","history_length":1}"#);
}

#[test]
fn values_of_seats_are_under_their_names() {
    let labels = JudgeKind::Paper.labels();
    let points: PerSeat<u8> = PerSeat::new(labels, [3, 2]);
    assert_eq!(serde_json::to_string(&points).unwrap(), r#"{"attacker":3,"defender":2}"#);
    assert_eq!((points.seats(), points.values(), points[taboo::DEFENDER]), (labels.seats, &[3, 2], 2));
    assert!(points.iter().eq([(taboo::ATTACKER, &3), (taboo::DEFENDER, &2)]));
    // Other keys are of the rest of the object.
    assert_eq!(serde_json::from_str::<PerSeat<u8>>(r#"{"defender":2,"x":[],"attacker":3}"#).unwrap(), points);
    let of: OfSeat<u8> = OfSeat::new(taboo::DEFENDER, 7);
    assert_eq!(serde_json::to_string(&of).unwrap(), r#"{"defender":7}"#);
    assert_eq!(serde_json::from_str::<OfSeat<u8>>(r#"{"x":1,"defender":7}"#).unwrap(), of);
    for (text, said) in [(r#"{"defender":2}"#, "a key SEAT is missing"), ("[]", "expected an object with keys SEAT")] {
        let error = serde_json::from_str::<PerSeat<u8>>(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert!(serde_json::from_str::<OfSeat<u8>>("{}").unwrap_err().to_string().contains("a key SEAT is missing"));
}

#[test]
fn values_of_another_kind_are_named() {
    let said = |error: serde_json::Error| error.to_string();
    for (error, expected) in [
        (said(serde_json::from_str::<Seat>("5").unwrap_err()), "expected the name of a seat"),
        (said(serde_json::from_str::<PerEnding<u8>>("5").unwrap_err()), "expected an object with the names of endings"),
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn utterance_rules_follow_the_form_of_prompts() {
    let spec = GameSpec { number: 0, item: "tea".into(), max_turns: 1, seed: 0, sampling_seed: None };
    for (format, rule) in [(PromptFormat::Plain, UtteranceRule::Trimmed), (PromptFormat::Chat, UtteranceRule::Message)]
    {
        let nim = spag_game::open_game("nim", &Default::default(), None, format).unwrap();
        let state = nim.start(&spec).unwrap();
        assert_eq!(state.utterance_rule(), rule);
        // For those who debug a game.
        assert!(format!("{state:?}").contains("Piles"), "{state:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts.json");
    let mut trimmed: Value = serde_json::from_str(include_str!("../../data/prompts.json")).unwrap();
    trimmed["utterances"] = "trimmed".into();
    std::fs::write(&path, trimmed.to_string()).unwrap();
    for (prompts, rule) in
        [(PromptSet::default(), UtteranceRule::AsDecoded), (PromptSet::load(&path).unwrap(), UtteranceRule::Trimmed)]
    {
        let game = spag_game::Taboo::new(&prompts);
        assert_eq!(game.start(&spec).unwrap().utterance_rule(), rule);
    }
    assert_eq!(
        (Said::from("tea"), Said::from("tea".to_owned()).generation),
        (Said { text: "tea".into(), ..Said::default() }, None)
    );
}

/// A player is worded what it was told up to its utterance, without what the other was told alone.
#[test]
fn recorded_games_are_worded_from_their_transcripts() {
    let game = spag_game::open_game("textarena:Chess-v0", &Default::default(), None, PromptFormat::Plain).unwrap();
    let told = |text: &str| json!([{"from": -1, "kind": "prompt", "text": text}]);
    let history: Vec<Value> =
        (0..3).map(|at| json!({"role": format!("player {}", at % 2), "content": format!("move {at}")})).collect();
    let transcript = json!({"told": [told("a"), told("b"), told("c")], "ending": "won", "winner": 0, "reason": "mate"});
    let row =
        json!({"history": history, "target_word": "", "game_name": "textarena:Chess-v0", "transcript": transcript});
    let episode: Episode = serde_json::from_value(row).unwrap();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
    let prompts = [0, 1, 2].map(|at| game.training_prompt(&episode.view(), at, &mut rng).unwrap().text());
    assert_eq!(prompts, ["[GAME] a\n", "[GAME] b\n", "[GAME] a\n[GAME] c\n"]);
    assert!(game.training_prompt(&episode.view(), 3, &mut rng).is_err());
    let verdict = game.judge().judge(&episode.view()).unwrap();
    assert_eq!((verdict.winner().map(Seat::index), verdict.history_length), (Some(0), 3));
}
