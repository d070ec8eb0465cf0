//! An endpoint as a player, against a server on a real socket.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use spag_game::taboo::Outcome;
use spag_game::taboo::Taboo;
use spag_game::{CollectedGames, GameSpec, PlayConfig, PromptSet, ScriptedPolicy, Seats, game_seed, play_games};
use spag_io::PromptFormat;
use spag_selfplay::{
    ApiKey, EndpointConfig, EndpointPlayer, EndpointSpec, PromptStyle, RetryConfig, SamplingSettings, Servers,
};
use spag_tests::{Answer, Received, Server};

pub(crate) fn config() -> EndpointConfig {
    let ms = Duration::from_millis;
    EndpointConfig {
        max_tokens: 32,
        in_flight: 4,
        timeout: Duration::from_secs(20),
        retry: RetryConfig { base: ms(2), cap: ms(8), retry_after_cap: ms(300), tries: 4, rest: ms(50) },
        ..EndpointConfig::default()
    }
}

pub(crate) fn player(base_url: String, style: PromptStyle, config: EndpointConfig) -> EndpointPlayer {
    let servers = Servers::One(base_url);
    EndpointPlayer::new(EndpointSpec { servers, model: "org/model-7b".into(), style, key_variable: None }, config)
        .unwrap()
}

pub(crate) fn try_play(player: &mut EndpointPlayer, games: usize) -> (spag_game::Result<()>, CollectedGames) {
    let specs = (0..games).map(|number| GameSpec {
        number,
        item: "tea".into(),
        max_turns: 2,
        seed: game_seed(5, number),
        sampling_seed: None,
    });
    let config = PlayConfig { games_in_flight: 8, ..PlayConfig::default() };
    let mut sink = CollectedGames::default();
    let result = play_games(&Taboo::new(&PromptSet::default()), specs, Seats::SelfPlay(player), &config, &mut sink);
    sink.finished.sort_by_key(|game| game.number);
    sink.failed.sort_by_key(|game| game.number);
    (result, sink)
}

pub(crate) fn play(player: &mut EndpointPlayer, games: usize) -> CollectedGames {
    let (result, games) = try_play(player, games);
    result.unwrap();
    games
}

/// An utterance that depends on the request and sometimes ends the game.
pub(crate) fn utterance(asked: &Received) -> String {
    match asked.seed() % 4 {
        0 => "It is tea.".into(),
        _ => format!("I have {} and {}.", asked.seed(), asked.prompt().len()),
    }
}

/// Why the only game of `play` failed.
pub(crate) fn reason(games: &CollectedGames) -> String {
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
    let specs = || [GameSpec { number: 0, item: "tea".into(), max_turns: 2, seed: 1, sampling_seed: None }];
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
    let specs = (0..9).map(|number| GameSpec {
        number,
        item: "tea".into(),
        max_turns: 2,
        seed: game_seed(5, number),
        sampling_seed: None,
    });
    let mut sink = CollectedGames::default();
    let seats = Seats::Versus([&mut attacker, &mut defender]);
    play_games(&Taboo::new(&PromptSet::default()), specs, seats, &PlayConfig::default(), &mut sink).unwrap();
    assert_eq!((sink.finished.len(), server.received().len()), (9, 18));
    assert!(sink.finished.iter().all(|game| Outcome::from(game.verdict) == Outcome::Tie));
    // The defender's prompts do not have the word.
    assert!(server.received().iter().all(|asked| !asked.prompt().contains("tea")));
}
