//! Models behind endpoints that play on the page of `spag serve`.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use spag_game::game_seed;
use spag_tests::{Answer, Received, Serve, Server, program, root, run, wait_until};

use crate::browser::Browser;
use crate::models::Cast;
use crate::routes::game;

const MODELS: [(&str, &str); 1] = [("clue", "It has stripes")];

/// The server of a model beside the endpoint `bot`.
fn serve(bot: &Server, more: &[&str]) -> Serve {
    let player = format!("bot=openai:{}#big", bot.base_url());
    Cast::new(&MODELS).with(&["--player", &player]).with(more).serve()
}

/// The only event of a turn.
fn turn(server: &Serve, game: &Value) -> Value {
    let mut events = server.post("/page/turn", game).events();
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

#[test]
fn endpoint_plays_either_seat_with_the_settings_of_the_game() {
    let models = json!({"data": [{"id": "big", "owned_by": "vllm"}]});
    let bot = Server::with_models(Answer::new(200, models), |_| Answer::says("I know the word! It is tiger"));
    let server = serve(&bot, &["--max_new_tokens", "40", "--top_p", "0.9"]);
    let settings = server.get("/page/settings").ok();
    assert_eq!(settings["models"][1]["name"], "bot");
    assert_eq!(settings["models"][1]["endpoint"], json!(format!("openai:{}#big", bot.base_url())));
    let mut asked = game(Some("clue"), Some("bot"), &["It has stripes"]);
    asked["temperature"] = json!(0.5);
    let last = turn(&server, &asked);
    assert_eq!(last["utterance"], "I know the word! It is tiger");
    assert_eq!(last["verdict"]["winner"], "defender", "{last}");
    turn(&server, &game(Some("bot"), None, &[]));
    let received = bot.received();
    for (one, at, temperature) in [(&received[0], 1, 0.5), (&received[1], 0, 1.2)] {
        let expected = json!([temperature, 0.9, 50, 40, game_seed(7, at) >> 33, "big"]);
        let names = ["temperature", "top_p", "top_k", "max_tokens", "seed", "model"];
        assert_eq!(json!(names.map(|name| one.body[name].clone())), expected);
    }
    let prompts: Vec<&str> = received.iter().map(Received::prompt).collect();
    // The defender's prompt has what was said and not the word, the attacker's has the word.
    assert!(prompts[0].contains("It has stripes") && !prompts[0].contains("tiger"), "{prompts:?}");
    assert!(prompts[1].contains("tiger"), "{prompts:?}");
    // A page whose models are greedy, and a game that is not.
    let greedy = serve(&bot, &["--temperature", "0"]);
    turn(&greedy, &game(Some("bot"), None, &[]));
    turn(&greedy, &asked);
    let settings = |one: &Received| json!(["temperature", "top_k", "min_p"].map(|name| one.body[name].clone()));
    let sent: Vec<Value> = bot.received()[2..].iter().map(settings).collect();
    assert_eq!(sent, [json!([0.0, null, null]), json!([0.5, 50, 0.0])]);
    // It is no model of the API.
    let body = json!({"model": "bot", "prompt": "a", "max_tokens": 1});
    assert_eq!(server.post("/v1/completions", &body).status, 404);
}

#[test]
fn endpoint_that_fails_is_told_and_may_be_asked_again() {
    let works = Arc::new(AtomicBool::new(false));
    let state = works.clone();
    let bot = Server::start(move |_| match state.load(Ordering::SeqCst) {
        true => Answer::says("What is it?"),
        false => Answer::error(401, "no such key: sk-a"),
    });
    let server = serve(&bot, &[]);
    let asked = game(Some("clue"), Some("bot"), &["It has stripes"]);
    let error = turn(&server, &asked)["error"]["message"].as_str().unwrap().to_owned();
    assert!(error.starts_with("bot: ") && error.contains("refuses access"), "{error}");
    // In a run this would end all games. Here the next request may find another answer.
    works.store(true, Ordering::SeqCst);
    assert_eq!(turn(&server, &asked)["utterance"], "What is it?");
}

#[test]
fn waiting_turns_are_limited_and_the_server_waits_for_those_in_progress() {
    let held = Arc::new(AtomicBool::new(true));
    let state = held.clone();
    let bot = Server::start(move |_| {
        wait_until("the turn may end", Duration::from_secs(300), || !state.load(Ordering::SeqCst));
        Answer::says("What is it?")
    });
    let mut server = serve(&bot, &["--requests_in_flight", "1"]);
    let asked = game(Some("clue"), Some("bot"), &["It has stripes"]);
    let mut streams: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = server.send("/page/turn", &asked);
            // The head of the answer: the turn is open.
            assert!(stream.read(&mut [0; 16]).unwrap() > 0);
            stream
        })
        .collect();
    let full = server.post("/page/turn", &asked);
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")));
    spag_tests::send_signal(server.process.id(), "TERM");
    held.store(false, Ordering::SeqCst);
    for stream in &mut streams {
        let mut rest = String::new();
        let _ = stream.read_to_string(&mut rest);
        assert!(rest.contains("What is it?") && rest.contains("data: [DONE]"), "{rest}");
    }
    assert!(server.process.wait_for(Duration::from_secs(300)).unwrap().success());
}

#[test]
fn players_that_are_no_endpoints_of_their_own_name_are_refused() {
    let tiny = root().join("data/tiny-llama");
    for (player, problem) in [
        ("bot=runs/im/model", "it is no endpoint; a checkpoint is served with --model NAME=DIR"),
        ("tiny-llama=openai:http://a/v1#m", "another player of the page has this name"),
        ("openai:http://a/v1#m", "NAME=PLAYER"),
        ("bot=openai:sk-secret@http://a/v1#m", "NAME_API_KEY"),
    ] {
        let mut command = program("spag");
        let (_, err) = run(command.arg("serve").arg(&tiny).args(["--player", player, "--port", "0"]), 2);
        assert!(err.contains(problem) && !err.contains("sk-secret"), "{err}");
    }
}

#[test]
#[ignore = "needs Chromium"]
fn endpoint_is_chosen_as_opponent_and_watched() {
    let bot = Server::start(|_| Answer::says("I know the word! It is tiger"));
    let server = serve(&bot, &[]);
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.choose("model", "bot");
    browser.press("Start a game");
    assert_eq!(browser.text(".against"), "Against bot");
    browser.say("What hunts?");
    browser.wait_text("You lose");
    assert_eq!(browser.texts(".said .text"), ["What hunts?", "I know the word! It is tiger"]);
    browser.open(&server.url("/#watch"));
    browser.wait_text("Watch models play");
    assert_eq!(browser.texts("select[name=defender] option"), ["clue", "bot (endpoint)"]);
    browser.choose("defender", "bot");
    browser.press("Watch a game");
    browser.wait_text("The defender wins");
    browser.end(&[]);
}
