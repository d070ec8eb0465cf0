//! Errors of endpoints: what is tried again, what fails a game, and what ends the run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use spag_game::taboo::Outcome;
use spag_game::taboo::Taboo;
use spag_game::{
    CollectedGames, Episode, FailedGame, FinishedGame, GameRecord, GameSink, GameSpec, PlayConfig, Policy, PromptSet,
    Seats, TurnRequest, UtteranceRule, game_seed, play_games, read_episodes, taboo,
};
use spag_io::{PromptText, TurnPrompt};
use spag_selfplay::{ApiKey, EndpointConfig, PromptStyle};
use spag_tests::{Answer, Server, reserve_port};

use crate::endpoint::{config, play, player, reason, try_play, utterance};

#[test]
fn status_429_pauses_all_requests() {
    for header in ["0.2".to_owned(), httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(60))] {
        let server = Server::start(move |asked| match asked.number {
            0 => Answer::error(429, "slow down").header("Retry-After", &header),
            _ => Answer::says("tea"),
        });
        let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { in_flight: 1, ..config() });
        let games = play(&mut player, 3);
        assert_eq!((games.finished.len(), player.stats().retries), (3, 1));
        let asked = server.received();
        let pause = asked[1].at - asked[0].at;
        // The date asks for a minute; the cap is 300 ms.
        assert!(pause >= Duration::from_millis(195) && pause < Duration::from_secs(30), "{pause:?}");
    }

    // Three concurrent requests, one of which gets status 429: no other request starts during the pause.
    let begun = AtomicUsize::new(0);
    let server = Server::start(move |asked| {
        begun.fetch_add(1, Ordering::SeqCst);
        if asked.number > 0 {
            return Answer::says("tea").after(Duration::from_millis(120));
        }
        while begun.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        Answer::error(429, "slow down").header("Retry-After", "0.3")
    });
    let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { in_flight: 3, ..config() });
    assert_eq!(play(&mut player, 6).finished.len(), 6);
    let asked = server.received();
    let third = asked[2].at;
    assert!(asked.len() == 7 && asked[3].at - third >= Duration::from_millis(290), "{:?}", asked[3].at - third);
}

type Fault = (&'static str, fn() -> Answer);

#[test]
fn transient_errors_are_retried() {
    let faults: [Fault; 8] = [
        ("500", || Answer::error(500, "out of memory")),
        ("503 without a body", || Answer::new(503, "")),
        ("408", || Answer::error(408, "timeout")),
        ("409", || Answer::error(409, "conflict")),
        ("425", || Answer::error(425, "too early")),
        ("garbage", || Answer::new(200, "<html>welcome</html>")),
        ("no choices", || Answer::new(200, json!({"choices": []}))),
        ("torn", || Answer { torn_at: Some(20), ..Answer::says("tea") }),
    ];
    for (name, fault) in faults {
        let server = Server::start(move |asked| if asked.number < 2 { fault() } else { Answer::says("tea") });
        let mut player = player(server.base_url(), PromptStyle::Chat, config());
        let games = play(&mut player, 1);
        assert_eq!((games.finished.len(), games.failed.len()), (1, 0), "{name}");
        let stats = player.stats();
        assert_eq!((stats.requests, stats.retries, stats.failures), (3, 2, 0), "{name}");
        let asked = server.received();
        assert!(asked.iter().all(|one| one.body == asked[0].body), "{name}: each try asks the same");
    }
}

#[test]
fn game_fails_after_the_last_try() {
    let server = Server::start(|_| Answer::error(502, "bad gateway"));
    let mut player = player(server.base_url(), PromptStyle::Chat, config());
    let said = reason(&play(&mut player, 1));
    assert!(said.starts_with("no answer after 4 tries, the last one: http://127.0.0.1:"), "{said}");
    assert!(said.contains("502") && said.ends_with("bad gateway"), "{said}");
    assert_eq!((server.received().len(), player.stats().failures), (4, 1));
}

#[test]
fn hanging_server_times_out() {
    let slow = Duration::from_secs(60);
    let server = Server::start(move |asked| {
        let delay = if asked.number < 2 { slow } else { Duration::ZERO };
        Answer::says("tea").after(delay)
    });
    let timeout = Duration::from_millis(500);
    let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { timeout, ..config() });
    let began = Instant::now();
    assert_eq!(play(&mut player, 1).finished.len(), 1);
    assert!(player.stats().retries >= 2);
    assert!(began.elapsed() < Duration::from_secs(50));
}

#[test]
fn dropping_the_player_never_hangs() {
    let server = Server::start(|_| Answer::says("tea").after(Duration::from_secs(60)));
    struct Brief(Instant);
    impl GameSink for Brief {
        fn finished(&mut self, _: FinishedGame) -> spag_game::Result<()> {
            Ok(())
        }
        fn failed(&mut self, _: FailedGame) -> spag_game::Result<()> {
            Ok(())
        }
        fn should_continue(&mut self) -> bool {
            self.0.elapsed() < Duration::from_millis(150)
        }
    }
    let began = Instant::now();
    let mut player = player(server.base_url(), PromptStyle::Chat, config());
    let specs =
        (0..9).map(|number| GameSpec { number, item: "tea".into(), max_turns: 2, seed: 1, sampling_seed: None });
    let prompts = PromptSet::default();
    play_games(&Taboo::new(&prompts), specs, Seats::SelfPlay(&mut player), &PlayConfig::default(), &mut Brief(began))
        .unwrap();
    drop(player);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn unreachable_endpoint_ends_the_run() {
    let port = reserve_port();
    let mut player = player(format!("http://127.0.0.1:{port}/v1"), PromptStyle::Chat, config());
    let (result, games) = try_play(&mut player, 50_000);
    let said = result.unwrap_err().to_string();
    assert!(said.starts_with("10 games in a row failed, the last one: game "), "{said}");
    assert!(said.contains(&format!("http://127.0.0.1:{port}/v1/chat/completions: ")), "{said}");
    assert_eq!((games.finished.len(), games.failed.len()), (0, 10));
}

#[test]
fn fatal_errors_end_the_run_at_once() {
    for (status, key, parts) in [
        (401, None, ["401", "set the environment variable OPENAI_API_KEY"]),
        (401, Some("sk-secret-2"), ["Incorrect API key: [key]", "the key in OPENAI_API_KEY"]),
        (403, Some("sk-secret-2"), ["403", "the key in OPENAI_API_KEY"]),
        (404, None, ["no such model", "/v1/models lists the models"]),
        (308, None, ["redirects to http://elsewhere/v1", "use that address"]),
    ] {
        let server = Server::start(move |_| {
            Answer::error(status, "Incorrect API key: sk-secret-2").header("Location", "http://elsewhere/v1")
        });
        let key = key.map(|key| ApiKey::new(key).unwrap());
        let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { key, ..config() });
        let (result, games) = try_play(&mut player, 100);
        let said = result.unwrap_err().to_string();
        assert!(said.starts_with("the player of both seats failed: http://127.0.0.1:"), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert!(player.stats().requests <= 8, "the rest is not tried");
        assert_eq!(games, CollectedGames::default());
    }
}

#[test]
fn fatal_error_is_told_by_a_turn_submitted_after_it() {
    let server = Server::start(|_| Answer::error(401, "no such key"));
    let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { in_flight: 1, ..config() });
    let began = Instant::now();
    // Nothing is polled.
    let error = loop {
        let episode = Episode::new("tea", 2);
        let turn = TurnRequest {
            number: 0,
            seat: taboo::ATTACKER,
            episode: &episode,
            prompt: &TurnPrompt::Plain(PromptText::own("Begin.")),
            utterance_rule: UtteranceRule::default(),
            legal_actions: None,
            game_seed: 1,
            seed: 1,
        };
        match player.submit(&turn) {
            Ok(()) => assert!(began.elapsed() < Duration::from_secs(300), "no turn was refused"),
            Err(error) => break error.to_string(),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(error.contains("401") && error.contains("OPENAI_API_KEY"), "{error}");
}

#[test]
fn refused_turn_fails_only_its_game() {
    // Cut at 300 characters, in the middle of the second echo of the key.
    let echo = format!("too long for sk-secret-3: {} sk-secret-3 {}", "x".repeat(265), "y".repeat(900));
    let server = Server::start(move |asked| match asked.seed() % 5 {
        0 => Answer::error(400, &echo),
        1 => Answer::new(200, json!({"choices": [{"message": {"content": "t"}, "finish_reason": "content_filter"}]})),
        2 => Answer::new(200, json!({"choices": [{"message": {"content": null, "refusal": "No."}}]})),
        _ => Answer::says("Hm."),
    });
    let key = Some(ApiKey::new("sk-secret-3").unwrap());
    let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { key, ..config() });
    let (result, games) = try_play(&mut player, 60);
    // Most games fail; whether ten in a row do does not matter here.
    drop(result);
    assert!(games.finished.iter().all(|game| Outcome::from(game.verdict) == Outcome::Tie));
    assert!(games.failed.len() >= 10);
    let reasons: Vec<String> = games.failed.iter().map(|game| game.failure.to_string()).collect();
    for reason in &reasons {
        assert!(reason.len() < 450 && !reason.contains("sk-se"), "{reason}");
    }
    for part in ["too long for [key]", "content filter", "has no text (finish_reason: none given): No."] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "{part}: {reasons:#?}");
    }
    for FailedGame { number, seed, episode, seat, .. } in &games.failed {
        assert_eq!((*seed, *seat), (game_seed(5, *number), taboo::seat_at(episode.history.len())));
    }
    let stats = player.stats();
    assert_eq!((stats.retries, stats.failures >= games.failed.len() as u64), (0, true));
}

#[test]
fn failed_games_are_recorded_and_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("games.jsonl");
    let specs = || -> Vec<GameSpec> {
        let spec = |number| GameSpec {
            number,
            item: "tea".into(),
            max_turns: 2,
            seed: game_seed(5, number),
            sampling_seed: None,
        };
        (0..9).map(spec).collect()
    };
    let play_missing = |server: &Server| {
        let mut player = player(server.base_url(), PromptStyle::Chat, config());
        let mut record =
            GameRecord::open(&path, &Taboo::default(), specs(), "endpoint; temperature=1.2; max_tokens=32".to_owned())
                .unwrap();
        let missing = record.missing();
        let (prompts, play) = (PromptSet::default(), PlayConfig::default());
        play_games(&Taboo::new(&prompts), missing, Seats::SelfPlay(&mut player), &play, &mut record).unwrap();
        let failed = read_episodes(record.failed_path()).unwrap_or_default();
        (record.into_episodes(), failed)
    };
    // The defender of every third game gets no answer.
    let doomed: Vec<u64> = (0..9).step_by(3).map(|game| game_seed(game_seed(5, game), 1) >> 33).collect();
    let server = Server::start(move |asked| match doomed.contains(&asked.seed()) {
        true => Answer::error(422, "that prompt I do not like"),
        false => Answer::says(&utterance(asked)),
    });
    let (finished, failed) = play_missing(&server);
    assert_eq!(finished.len() + failed.len(), 9);
    assert!(!failed.is_empty());
    for episode in &failed {
        let text = serde_json::to_string(episode).unwrap();
        assert!(episode.history.len() == 1 && text.contains("that prompt I do not like"), "{text}");
        assert!(text.contains("\"role\":\"defender\"") && text.contains("endpoint; temperature=1.2; max_tokens=32"));
    }
    // With a working server only the failed games are played.
    let mended = Server::start(|asked| Answer::says(&utterance(asked)));
    let (finished, none) = play_missing(&mended);
    assert_eq!((finished.len(), none.len()), (9, 0));
    assert!(mended.received().len() <= 4 * failed.len());
}
