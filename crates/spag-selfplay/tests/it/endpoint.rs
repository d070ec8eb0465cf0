//! An endpoint as a player, against a server on a real socket.

use std::collections::HashSet;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use spag_game::taboo::Outcome;
use spag_game::taboo::Taboo;
use spag_game::{
    CollectedGames, Episode, FailedGame, FinishedGame, GameRecord, GameSink, GameSpec, PlayConfig, Policy, PromptSet,
    ScriptedPolicy, Seats, TurnRequest, UtteranceRule, game_seed, play_games, read_episodes, taboo,
};
use spag_io::{PromptFormat, PromptText, TurnPrompt};
use spag_selfplay::{
    ApiKey, EndpointConfig, EndpointPlayer, EndpointSpec, PromptStyle, RetryConfig, SamplingSettings, Servers,
};
use spag_tests::{Answer, Received, Server, reserve_port};

fn config() -> EndpointConfig {
    let ms = Duration::from_millis;
    EndpointConfig {
        max_tokens: 32,
        in_flight: 4,
        timeout: Duration::from_secs(20),
        retry: RetryConfig { base: ms(2), cap: ms(8), retry_after_cap: ms(300), tries: 4, rest: ms(50) },
        ..EndpointConfig::default()
    }
}

fn player(base_url: String, style: PromptStyle, config: EndpointConfig) -> EndpointPlayer {
    let servers = Servers::One(base_url);
    EndpointPlayer::new(EndpointSpec { servers, model: "org/model-7b".into(), style, key_variable: None }, config)
        .unwrap()
}

fn try_play(player: &mut EndpointPlayer, games: usize) -> (spag_game::Result<()>, CollectedGames) {
    let specs =
        (0..games).map(|number| GameSpec { number, item: "tea".into(), max_turns: 2, seed: game_seed(5, number) });
    let config = PlayConfig { games_in_flight: 8, ..PlayConfig::default() };
    let mut sink = CollectedGames::default();
    let result = play_games(&Taboo::new(&PromptSet::default()), specs, Seats::SelfPlay(player), &config, &mut sink);
    sink.finished.sort_by_key(|game| game.number);
    sink.failed.sort_by_key(|game| game.number);
    (result, sink)
}

fn play(player: &mut EndpointPlayer, games: usize) -> CollectedGames {
    let (result, games) = try_play(player, games);
    result.unwrap();
    games
}

/// An utterance that depends on the request and sometimes ends the game.
fn utterance(asked: &Received) -> String {
    match asked.seed() % 4 {
        0 => "It is tea.".into(),
        _ => format!("I have {} and {}.", asked.seed(), asked.prompt().len()),
    }
}

/// Why the only game of `play` failed.
fn reason(games: &CollectedGames) -> String {
    assert_eq!((games.finished.len(), games.failed.len()), (0, 1), "{games:?}");
    games.failed[0].failure.to_string()
}

#[test]
fn games_send_the_expected_requests() {
    for (style, path, key) in [
        (PromptStyle::Chat, "POST /v1/chat/completions", Some("sk-secret-1")),
        (PromptStyle::Completion, "POST /v1/completions", None),
    ] {
        let server = Server::start(|asked| Answer::says(&utterance(asked)));
        let key = key.map(|key| ApiKey::new(key).unwrap());
        let mut player = player(
            server.base_url(),
            style,
            EndpointConfig {
                sampling: SamplingSettings { top_k: Some(40), top_p: Some(0.9), ..config().sampling },
                key: key.clone(),
                ..config()
            },
        );
        let games = play(&mut player, 12);
        assert_eq!((games.finished.len(), games.failed.len()), (12, 0));
        assert!(games.finished.iter().any(|game| Outcome::from(game.verdict) == Outcome::Tie));
        assert!(games.finished.iter().any(|game| Outcome::from(game.verdict) != Outcome::Tie));
        let asked = server.received();
        assert_eq!(asked.len(), games.finished.iter().map(|game| game.episode.history.len()).sum::<usize>());
        assert_eq!(asked.iter().map(Received::seed).collect::<HashSet<_>>().len(), asked.len());
        let prompts = PromptSet::default();
        let opening = prompts.playing_query(&[], "tea", 2);
        assert_eq!(asked.iter().filter(|asked| asked.prompt() == opening).count(), 12);
        for one in &asked {
            assert_eq!(one.line, path);
            assert_eq!(one.header("authorization"), key.as_ref().map(|_| "Bearer sk-secret-1"));
            assert_eq!(one.header("content-type"), Some("application/json"));
            let mut expected = json!({"model": "org/model-7b", "max_tokens": 32, "temperature": 1.2, "top_k": 40, "top_p": 0.9,
                                      "seed": one.seed(), "n": 1, "stream": false});
            match style {
                PromptStyle::Chat => expected["messages"] = json!([{"role": "user", "content": one.prompt()}]),
                PromptStyle::Completion => expected["prompt"] = json!(one.prompt()),
            }
            assert_eq!(one.body, expected);
            assert!(one.seed() <= i32::MAX as u64);
        }
        let stats = player.stats();
        let count = asked.len() as u64;
        assert_eq!((stats.requests, stats.retries, stats.failures), (count, 0, 0));
        assert_eq!((stats.prompt_tokens, stats.completion_tokens), (10 * count, 3 * count));
    }
}

#[test]
fn chat_is_sent_as_messages_and_refused_by_endpoints_that_complete_texts() {
    let server = Server::start(|_| Answer::says("Hello."));
    let mut chat = player(server.base_url(), PromptStyle::Chat, config());
    let prompts = PromptSet::default().with_format(PromptFormat::Chat);
    let specs = || [GameSpec { number: 0, item: "tea".into(), max_turns: 2, seed: 1 }];
    let (play, mut games) = (PlayConfig::default(), CollectedGames::default());
    play_games(&Taboo::new(&prompts), specs(), Seats::SelfPlay(&mut chat), &play, &mut games).unwrap();
    assert_eq!((games.finished.len(), games.failed.len()), (1, 0));
    let second = &server.received()[1].body["messages"];
    let roles: Vec<&str> = second.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user"]);
    assert_eq!(second[1]["content"], games.finished[0].episode.history[0].content);

    let mut completion = player(server.base_url(), PromptStyle::Completion, config());
    let error =
        play_games(&Taboo::new(&prompts), specs(), Seats::SelfPlay(&mut completion), &play, &mut games).unwrap_err();
    let error = spag_io::error_chain(&error);
    assert!(error.contains("takes no messages") && error.contains("openai-completions:http"), "{error}");
}

#[test]
fn greedy_is_temperature_0_and_what_is_not_set_is_left_out() {
    let server = Server::start(|_| Answer::says("tea"));
    let mut player = player(
        server.base_url(),
        PromptStyle::Chat,
        EndpointConfig { sampling: SamplingSettings { temperature: 0.0, ..config().sampling }, ..config() },
    );
    play(&mut player, 1);
    let body = &server.received()[0].body;
    assert_eq!((body["temperature"].as_f64(), body.get("top_k"), body.get("top_p")), (Some(0.0), None, None));
}

/// A list with the model of `player`, and one of another owner.
fn models(owner: &str) -> Answer {
    let listed = |id: &str, owner: &str| json!({"id": id, "object": "model", "created": 0, "owned_by": owner});
    Answer::new(200, json!({"object": "list", "data": [listed("other", "system"), listed("org/model-7b", owner)]}))
}

#[test]
fn models_of_openai_get_the_limit_of_tokens_by_its_newer_name() {
    let names = |server: &Server| -> Vec<[bool; 2]> {
        let has = |body: &serde_json::Value| ["max_tokens", "max_completion_tokens"].map(|name| body[name] == 32);
        server.received().iter().map(|asked| has(&asked.body)).collect()
    };
    let server = Server::with_models(models("openai"), |_| Answer::says("tea"));
    play(&mut player(server.base_url(), PromptStyle::Chat, config()), 1);
    assert!(names(&server).iter().all(|sent| *sent == [false, true]), "{:?}", names(&server));
    // A server that says so is asked once more, and from then on so.
    let refusal = json!({"error": {"message": "Unsupported parameter", "param": "max_tokens"}}).to_string();
    let server = Server::start(move |asked| match asked.body.get("max_tokens") {
        Some(_) => Answer::new(400, &refusal),
        None => Answer::says(&utterance(asked)),
    });
    let one = EndpointConfig { in_flight: 1, ..config() };
    assert_eq!(play(&mut player(server.base_url(), PromptStyle::Chat, one), 2).finished.len(), 2);
    let sent = names(&server);
    assert_eq!(sent[0], [true, false]);
    assert!(sent.len() > 2 && sent[1..].iter().all(|sent| *sent == [false, true]), "{sent:?}");
    // One that refuses both names keeps its message.
    let server = Server::start(|_| Answer::new(400, json!({"error": {"message": "no", "param": "max_tokens"}})));
    assert_eq!(play(&mut player(server.base_url(), PromptStyle::Chat, config()), 1).failed.len(), 1);
}

#[test]
fn list_of_models_says_which_settings_of_sampling_are_sent() {
    static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let names = ["top_k", "top_p", "min_p", "repetition_penalty", "repeat_penalty"];
    for (owner, sent) in [
        ("vllm", json!([50, 1.0, 0.0, 1.0, null])),
        ("llamacpp", json!([50, 1.0, 0.0, null, 1.0])),
        ("openai", json!([null, null, null, null, null])),
    ] {
        let server = Server::with_models(models(owner), |asked| Answer::says(&utterance(asked)));
        let key = Some(ApiKey::new("sk-secret-1").unwrap());
        let report = |note: &str| NOTES.lock().unwrap().push(note.to_owned());
        let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { key, report, ..config() });
        assert_eq!(play(&mut player, 12).finished.len(), 12);
        // Once for all threads.
        assert_eq!(server.models_asked(), 1);
        for one in server.received() {
            assert_eq!(json!(names.map(|name| one.body[name].clone())), sent, "{owner}");
        }
        assert_eq!(player.stats().requests, server.received().len() as u64);
    }
    let notes = NOTES.lock().unwrap();
    assert!(notes.len() == 1 && notes[0].contains("#org/model-7b is not known to accept top_k"), "{notes:?}");
}

#[test]
fn server_that_cannot_list_its_models_yet_is_asked_again() {
    for (status, asked) in [(503, 2), (404, 1)] {
        let server = Server::with_models(Answer::error(status, "loading"), |_| Answer::says("tea"));
        let mut player = player(server.base_url(), PromptStyle::Chat, config());
        for _ in 0..2 {
            assert_eq!(play(&mut player, 1).finished.len(), 1);
        }
        assert_eq!((server.models_asked(), server.received().len()), (asked, 2), "{status}");
        assert!(server.received().iter().all(|one| one.body.get("top_k").is_none()));
    }
}

#[test]
fn games_do_not_depend_on_concurrency_or_order_of_answers() {
    let mut all: Vec<CollectedGames> = Vec::new();
    // Later requests are often answered first.
    let server = Server::start(|asked| {
        let answer = match asked.seed() % 23 {
            0 => Answer::error(400, "This model's context is 4096 tokens"),
            _ => Answer::says(&utterance(asked)),
        };
        answer.after(Duration::from_millis(asked.seed() / 7 % 9))
    });
    for in_flight in [1, 3, 16] {
        let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { in_flight, ..config() });
        all.push(play(&mut player, 40));
        assert!(server.most_at_once() <= in_flight);
        assert!(in_flight == 1 || server.most_at_once() > 1);
    }
    assert!(!all[0].failed.is_empty() && all[0].finished.len() > 20);
    assert!(all.iter().all(|games| *games == all[0]));
}

#[test]
fn endpoint_plays_against_a_script() {
    let server = Server::start(|_| Answer::says("Hot water with leaves?").after(Duration::from_millis(2)));
    let mut defender = player(server.base_url(), PromptStyle::Chat, config());
    let mut attacker = ScriptedPolicy::lines(["What do you drink?", "", "And in the morning?"]);
    let specs = (0..9).map(|number| GameSpec { number, item: "tea".into(), max_turns: 2, seed: game_seed(5, number) });
    let mut sink = CollectedGames::default();
    let seats = Seats::Versus([&mut attacker, &mut defender]);
    play_games(&Taboo::new(&PromptSet::default()), specs, seats, &PlayConfig::default(), &mut sink).unwrap();
    assert_eq!((sink.finished.len(), server.received().len()), (9, 18));
    assert!(sink.finished.iter().all(|game| Outcome::from(game.verdict) == Outcome::Tie));
    // The defender's prompts do not have the word.
    assert!(server.received().iter().all(|asked| !asked.prompt().contains("tea")));
}

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
    let specs = (0..9).map(|number| GameSpec { number, item: "tea".into(), max_turns: 2, seed: 1 });
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
        let spec = |number| GameSpec { number, item: "tea".into(), max_turns: 2, seed: game_seed(5, number) };
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

#[test]
fn requests_keep_the_maximum_rate() {
    let server = Server::start(|_| Answer::says("tea"));
    let limited = EndpointConfig { requests_per_minute: Some(1200.0), ..config() };
    let mut player = player(server.base_url(), PromptStyle::Chat, limited);
    // Twenty a second: twenty at once, then ten more in half a second.
    let began = Instant::now();
    play(&mut player, 30);
    assert!(began.elapsed() >= Duration::from_millis(480), "{:?}", began.elapsed());
}

#[test]
fn invalid_settings_are_refused() {
    let spec = EndpointSpec {
        servers: Servers::One("http://a/v1".into()),
        model: "m".into(),
        style: PromptStyle::Chat,
        key_variable: None,
    };
    for (config, setting) in [
        (EndpointConfig { in_flight: 0, ..config() }, "in_flight"),
        (
            EndpointConfig { sampling: SamplingSettings { temperature: f64::NAN, ..config().sampling }, ..config() },
            "temperature",
        ),
        (EndpointConfig { sampling: SamplingSettings { top_p: Some(1.5), ..config().sampling }, ..config() }, "top_p"),
        (EndpointConfig { max_tokens: 0, ..config() }, "max_tokens"),
        (EndpointConfig { timeout: Duration::ZERO, ..config() }, "timeout"),
        (EndpointConfig { timeout: Duration::MAX, ..config() }, "timeout"),
        (EndpointConfig { retry: RetryConfig { cap: Duration::MAX, ..config().retry }, ..config() }, "retry"),
        (EndpointConfig { retry: RetryConfig { tries: 0, ..config().retry }, ..config() }, "retry.tries"),
        (EndpointConfig { requests_per_minute: Some(0.0), ..config() }, "requests_per_minute"),
    ] {
        let said = EndpointPlayer::new(spec.clone(), config).unwrap_err().to_string();
        assert!(said.contains(setting), "{said}");
    }
}

#[test]
fn short_key_is_left_in_utterances() {
    // A common key for servers without keys.
    let server = Server::start(|_| Answer::says("x marks the spot"));
    let key = Some(ApiKey::new("x").unwrap());
    let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { key, ..config() });
    assert_eq!(play(&mut player, 1).finished[0].episode.history[0].content, "x marks the spot");
}

/// A server that sends `head` and then `piece` again and again, with a pause.
fn dripping(head: &'static str, piece: &'static str, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut sent = stream.write_all(head.as_bytes());
                while sent.is_ok() {
                    std::thread::sleep(pause);
                    sent = stream.write_all(piece.as_bytes());
                }
            });
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn endless_answers_end_in_bounded_time_and_memory() {
    let ms = Duration::from_millis;
    let kib = |text: &str| -> &'static str { Box::leak(text.repeat(1024 / text.len()).into_boxed_str()) };
    let body = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (what, head, piece, pause, timeout) in [
        ("a slow body", body, " ", ms(50), ms(1500)),
        ("slow chunks", chunked, "1\r\n \r\n", ms(50), ms(1500)),
        ("slow headers", "HTTP/1.1 200 OK\r\n", "X-A: b\r\n", ms(50), ms(1500)),
        ("a long body", body, kib("  "), ms(0), ms(60_000)),
        ("many headers", "HTTP/1.1 200 OK\r\n", kib("X-A: b\r\n"), ms(0), ms(60_000)),
        ("a long header", "HTTP/1.1 200 OK\r\nX-A: ", kib("ab"), ms(0), ms(60_000)),
        ("interim answers", "", "HTTP/1.1 102 Processing\r\n\r\n", ms(50), ms(1500)),
    ] {
        let retry = RetryConfig { tries: 1, ..config().retry };
        let config = EndpointConfig { timeout, retry, ..config() };
        let mut player = player(dripping(head, piece, pause), PromptStyle::Chat, config);
        let began = Instant::now();
        let said = reason(&play(&mut player, 1));
        assert!(said.len() < 1000, "{what}: {said}");
        assert!(began.elapsed() < Duration::from_secs(120), "{what}: {said}");
    }
}

#[test]
fn key_does_not_follow_a_redirect() {
    let other = Server::start(|_| Answer::says("tea"));
    for status in [301, 302, 303, 307, 308] {
        let target = format!("{}/chat/completions?key=sk-secret-5", other.base_url());
        let server = Server::start(move |_| Answer::new(status, "").header("Location", &target));
        let key = Some(ApiKey::new("sk-secret-5").unwrap());
        let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { key, ..config() });
        let said = try_play(&mut player, 1).0.unwrap_err().to_string();
        assert!(said.contains("redirects to") && !said.contains("secret"), "{said}");
    }
    assert!(other.received().is_empty());
}

#[test]
fn https_address_uses_tls() {
    let server = Server::start(|_| Answer::says("tea"));
    let base_url = server.base_url().replace("http:", "https:");
    let once = RetryConfig { tries: 1, ..config().retry };
    let mut player = player(base_url, PromptStyle::Chat, EndpointConfig { retry: once, ..config() });
    // The server does not speak TLS.
    let said = reason(&play(&mut player, 1));
    assert!(said.contains("https://127.0.0.1:") && !said.to_lowercase().contains("required"), "{said}");
    assert!(server.received().iter().all(|asked| !asked.line.contains("POST")));
}

#[test]
fn key_is_never_printed() {
    let key = Some(ApiKey::new("sk-secret-4").unwrap());
    let config = EndpointConfig { key, ..config() };
    assert!(!format!("{config:?}").contains("secret"));
    let player = player("http://127.0.0.1:1/v1".into(), PromptStyle::Chat, config);
    assert!(!format!("{player:?}").contains("secret"));
}
