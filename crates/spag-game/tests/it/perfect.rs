//! Perfect play of small games, and what games tell programs about themselves.

use rand::SeedableRng;
use serde_json::{Map, Value, json};

use spag_game::games::{self, BestActions, FactPair, PerfectPlay, connect_four, nim, tic_tac_toe};
use spag_game::{
    CollectedGames, Episode, Game, GameData, GameSpec, PlayConfig, ScriptedPolicy, Seats, Taboo, TurnRequest,
    game_seed, open_game, parse_options, play_games, taboo,
};

fn open(name: &str, options: &str) -> std::sync::Arc<dyn Game> {
    open_game(name, &parse_options(options), None, Default::default()).unwrap()
}

#[test]
fn moves_that_keep_the_value_are_counted() {
    let counts = |played: Option<[PerfectPlay; 2]>| played.map(|seats| seats.map(|seat| (seat.kept, seat.moves)));
    for (cells, expected) in [
        (&[][..], Some([(0, 0), (0, 0)])),
        // Only the centre draws against a corner.
        (&[0, 1], Some([(1, 1), (0, 1)])),
        (&[0, 4, 8, 1], Some([(2, 2), (2, 2)])),
        // The second corner loses: player 0 does not take the win at once, then does not block.
        (&[0, 4, 8, 2, 1], Some([(2, 3), (1, 2)])),
        (&[0, 0], None),
        (&[0, 3, 1, 4, 2, 5], None),
    ] {
        assert_eq!(counts(tic_tac_toe::perfect_play(cells)), expected, "{cells:?}");
    }
    let shares = |[first, second]: [PerfectPlay; 2]| [first.share(), second.share()];
    assert_eq!(shares(tic_tac_toe::perfect_play(&[0]).unwrap()), [Some(1.0), None]);
    assert_eq!(shares(tic_tac_toe::perfect_play(&[0, 4, 8, 2, 1]).unwrap()), [Some(2.0 / 3.0), Some(0.5)]);
    // Whoever lets three in a column stand loses.
    assert_eq!(counts(connect_four::perfect_play(4, 2, &[0, 1, 0, 1, 0, 1])), Some([(3, 3), (2, 3)]));
    assert_eq!(counts(connect_four::perfect_play(4, 2, &[0, 1, 0, 1, 0, 1, 0])), Some([(4, 4), (2, 3)]));
    for (rows, cols, columns) in [(4, 5, &[][..]), (0, 4, &[]), (4, 2, &[2]), (4, 2, &[0, 1, 0, 1, 0, 1, 0, 1])] {
        assert_eq!(connect_four::perfect_play(rows, cols, columns), None, "{rows} {cols} {columns:?}");
    }
    // Of 3, 4 and 5, taking 2 of the first pile wins; the second player has then lost whatever it plays.
    assert_eq!(counts(nim::perfect_play(&[3, 4, 5], &[(0, 2), (2, 1), (1, 4)])), Some([(1, 2), (1, 1)]));
    for moves in [[(0, 0)], [(0, 4)], [(3, 1)]] {
        assert_eq!(nim::perfect_play(&[3, 4, 5], &moves), None);
    }
}

#[test]
fn best_actions_are_named_as_players_write_them() {
    for (name, options, said, expected) in [
        ("tic-tac-toe", "", &["[0]"][..], &["[4]"][..]),
        // Both players can end it: to win is best, to block is not.
        ("tic-tac-toe", "", &["[0]", "[3]", "[1]", "[4]"], &["[2]"]),
        ("tic-tac-toe", "", &["[0]", "[3]", "[1]", "[4]", "[2]"], &[]),
        ("nim", "piles=[3,4,5]", &[], &["[0 2]"]),
        ("nim", "piles=[2,2]", &[], &["[0 1]", "[0 2]", "[1 1]", "[1 2]"]),
    ] {
        let game = open(name, options);
        let mut best = BestActions::of(&*game).unwrap().unwrap();
        let mut state = BestActions::start(&*game, 0).unwrap();
        said.iter().for_each(|text| assert!(state.apply(text).refusal.is_none()));
        assert_eq!(best.in_state(&*state), expected, "{name} {said:?}");
    }
    for (name, options) in [("connect-four", ""), ("kuhn-poker", ""), ("liars-dice", "")] {
        assert!(BestActions::of(&*open(name, options)).unwrap().is_none(), "{name}");
    }
}

/// Players are told the legal actions of every turn, and one that draws among them is never refused.
#[test]
fn turns_have_the_legal_actions() {
    for (name, options) in [("tic-tac-toe", ""), ("connect-four", ""), ("nim", "piles=[3,4,5]"), ("kuhn-poker", "")] {
        let game = open(name, options);
        let mut openings = std::collections::BTreeSet::new();
        let mut random = ScriptedPolicy::random_actions();
        let specs = (0..12).map(|number| GameSpec {
            number,
            item: "".into(),
            max_turns: 0,
            seed: game_seed(3, number),
            sampling_seed: None,
        });
        let mut played = CollectedGames::default();
        play_games(&*game, specs, Seats::SelfPlay(&mut random), &PlayConfig::default(), &mut played).unwrap();
        assert_eq!(played.finished.len(), 12);
        for finished in &played.finished {
            let history = &finished.episode.history;
            assert!(history.iter().all(|said| said.extra.is_empty()), "{name}: no utterance is refused");
            openings.insert(history[0].content.clone());
            // As a match of the same seed lists them.
            let mut state = BestActions::start(&*game, finished.seed).unwrap();
            for said in history {
                assert!(state.legal_actions().unwrap().contains(&said.content), "{name}");
                state.apply(&said.content);
            }
            assert_eq!(state.legal_actions(), None);
        }
        assert!(openings.len() > 1, "{name}: {openings:?}");
    }
    // A game of words lists none.
    let mut listed = 0;
    let mut player = ScriptedPolicy::new(|turn: &TurnRequest<'_>| {
        listed += usize::from(turn.legal_actions.is_some());
        "hm".to_owned()
    });
    let spec = || GameSpec { number: 0, item: "tea".into(), max_turns: 1, seed: 0, sampling_seed: None };
    let mut played = CollectedGames::default();
    let (taboo, config) = (Taboo::default(), PlayConfig::default());
    play_games(&taboo, [spec()], Seats::SelfPlay(&mut player), &config, &mut played).unwrap();
    play_games(&taboo, [spec()], Seats::SelfPlay(&mut ScriptedPolicy::random_actions()), &config, &mut played).unwrap();
    assert_eq!(played.finished[1].episode.history.iter().map(|said| &*said.content).collect::<Vec<_>>(), ["", ""]);
    assert_eq!(listed, 0);
}

#[test]
fn records_name_games_and_options() {
    for (name, options, settings) in [
        ("nim", "piles=[1,2] error_allowance=3", json!({"piles": [1, 2], "error_allowance": 3})),
        ("kuhn-poker", "", json!({})),
        ("textarena:Chess-v0", "max_turns=9", json!({"max_turns": 9})),
        ("textarena:Chess-v0", "", json!({})),
    ] {
        let game = open(name, options);
        let mut keys = json!({"game_name": name});
        if settings != json!({}) {
            keys["game_options"] = settings.clone();
        }
        assert_eq!((Value::from(game.settings()), Value::from(game.record_keys())), (settings, keys));
        let mut episode = Episode::new("", 0);
        assert!(!episode.is_of(&*game));
        episode.extra.extend(game.record_keys());
        assert!(episode.is_of(&*game) && !episode.is_of(&Taboo::default()));
    }
    let arena =
        spag_game::RecordedTextArena::new("textarena:Chess-v0", &Map::new(), Default::default()).unwrap().unwrap();
    assert_eq!((arena.name(), arena.options().len()), ("textarena:Chess-v0", 0));
    let (options, format) = (parse_options("max_turns=9"), spag_io::PromptFormat::Chat);
    let chat = spag_game::RecordedTextArena::new("textarena:Chess-v0", &options, format).unwrap().unwrap();
    assert_eq!((chat.format(), chat.options()), (format, &options));
    assert_eq!(spag_game::game_labels("textarena:Chess-v0").map(|labels| labels.name), Some(arena.labels().name));
    assert!(spag_game::game_labels("chess").is_none());
    // Adversarial Taboo's records are those of the reference, without a name.
    let game = Taboo::default();
    assert_eq!(Value::from(game.settings()), json!({"judge": game.rules.judge.to_string()}));
    assert!(game.record_keys().is_empty() && Episode::new("tea", 5).is_of(&game));
}

#[test]
fn taboo_marks_what_decides() {
    let (game, mut episode) = (Taboo::default(), Episode::new("tea", 5));
    episode.push(taboo::ATTACKER, "hot?");
    episode.push(taboo::DEFENDER, "Some tea.");
    assert_eq!(game.marks(&episode, 1).unwrap(), [5..8]);
    assert!(game.marks(&episode, 0).unwrap().is_empty() && game.marks(&episode, 2).unwrap().is_empty());
    assert!(open("nim", "").marks(&episode, 1).unwrap().is_empty());
}

#[test]
fn prompts_end_with_the_game() {
    let game = open("nim", "piles=[2,1]");
    let mut episode = Episode::new("", 0);
    for (seat, text) in game.labels().seats.into_iter().zip(["[0 2]", "[1 1]"]) {
        episode.push(seat, text);
    }
    let prompt = |at| game.training_prompt(&episode.view(), at, &mut rand_chacha::ChaCha8Rng::seed_from_u64(0));
    assert!(
        prompt(1)
            .unwrap()
            .text()
            .ends_with("[Player 0] [0 2]\n[GAME] Player 0 takes 2 of pile 0.\n[GAME] Piles:\npile 0: 0\npile 1: 1\n")
    );
    let said = prompt(2).unwrap_err().to_string();
    assert!(said.contains('2') && !said.contains('1') && !said.contains('0'), "{said}");
}

#[test]
fn data_without_entries_are_refused() {
    let (words, facts) = (GameData::Words([].into()), GameData::Facts(Vec::<FactPair>::new().into()));
    for (name, data) in [("taboo", &words), ("dont-say-it", &words), ("truth-and-deception", &facts)] {
        let error = games::by_name(name, &Map::new(), Some(data), Default::default()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: it needs a ")), "{error}");
    }
}
