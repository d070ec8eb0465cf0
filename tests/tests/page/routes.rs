//! The page's routes without a browser: files, games, refusals.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};
use spag_game::{Episode, read_episodes, taboo};
use spag_tests::{Reply, Serve, long_model, program, root, run, send_signal};

use crate::models::{After, Cast, scripted};

/// How long something may take that has to happen.
const LIMIT: Duration = Duration::from_secs(300);

const MODELS: [(&str, &str); 2] = [("clue", "It has stripes"), ("right", "I know the word! It is tiger")];

pub(crate) fn game(attacker: Option<&str>, defender: Option<&str>, said: &[&str]) -> Value {
    let history = said.iter().enumerate().map(|(at, text)| json!({"role": taboo::seat_at(at), "content": text}));
    json!({
        "target_word": "tiger", "max_turns": 2, "seed": 7,
        "players": {"attacker": attacker, "defender": defender}, "history": history.collect::<Vec<_>>(),
    })
}

/// The pieces of a streamed utterance, and its last event.
fn turn(server: &Serve, game: &Value) -> (Vec<String>, Value) {
    let mut events = server.post("/page/turn", game).events();
    let last = events.pop().unwrap();
    (events.into_iter().map(|event| event["delta"].as_str().unwrap().to_owned()).collect(), last)
}

#[test]
fn files_are_served_with_a_policy_and_known_by_their_tags() {
    let server = Cast::new(&MODELS[..1]).serve();
    let page = server.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let scripts = page.text.matches("<script").count();
    assert!(
        scripts == 1 && page.text.contains("<script type=\"module\" src=\"/page/main.js\"></script>"),
        "{}",
        page.text
    );
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/page/main.js", "text/javascript; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ] {
        let file = server.get(path);
        assert_eq!((file.status, file.header("content-type")), (200, Some(kind)), "{path}");
        let policy = file.header("content-security-policy").unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]
        {
            assert!(policy.contains(part) && !policy.contains("unsafe"), "{path}: {policy}");
        }
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        let tag = file.header("etag").unwrap();
        let again = server.get_with(path, &[("if-none-match", &format!("\"other\", {tag}"))]);
        assert_eq!((again.status, again.text.as_str(), again.header("etag")), (304, "", Some(tag)));
        assert_eq!(server.get_with(path, &[("if-none-match", "\"other\"")]).status, 200);
        assert_eq!(server.post(path, &json!({})).status, 405);
    }
    for path in ["/page/", "/page/none.js", "/page/../main.js", "/index.html", "/page/main.js/"] {
        assert!(
            server
                .raw(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
                .starts_with("HTTP/1.1 404")
        );
    }
    assert_eq!(server.metric("spag_http_responses_total", "route=\"/page/main.js\",status=\"304\""), 1.0);
    let settings = server.get("/page/settings").ok();
    assert_eq!(settings["models"], json!([{"name": "clue", "max_new_tokens": 96}]));
    assert_eq!(
        (&settings["max_turns"], &settings["judge"], &settings["run"]),
        (&json!(5), &json!("paper"), &Value::Null)
    );
    let word = server.get("/page/word").ok();
    assert!(word["target_word"] == "tiger" && word["seed"].as_u64().unwrap() < 1 << 53, "{word}");
}

/// Plays games with spag-play, and each turn of them again through the server.
fn plays_as_spag_play(prompts: &str, more: &[&str]) {
    let work = tempfile::tempdir().unwrap();
    let (model, prompts, words) = (root().join("data/tiny-llama"), root().join(prompts), work.path().join("words.txt"));
    fs::write(&words, "tiger\npanda\nzebra\nboot\n").unwrap();
    let mut play = program("spag-play");
    play.arg("--attacker_model_name_or_path").arg(&model).arg("--defender_model_name_or_path").arg(&model);
    play.arg("--data_path").arg(&words).arg("--output_dir").arg(work.path().join("out")).args(more);
    run(play.arg("--prompts").arg(&prompts), 0);
    let results = fs::read_dir(work.path().join("out")).unwrap().map(|entry| entry.unwrap().path());
    let results = results.into_iter().find(|path| path.to_str().unwrap().ends_with("_results.json")).unwrap();
    let episodes = read_episodes(results).unwrap();
    assert_eq!(episodes.len(), 4);

    let arguments = [model.as_os_str(), "--prompts".as_ref(), prompts.as_os_str()].map(OsStr::to_owned);
    let server = Serve::start(arguments.into_iter().chain(more.iter().map(Into::into)));
    let mut checked = 0;
    for Episode { history, item: target_word, max_turns, extra } in &episodes {
        for (at, said) in history.iter().enumerate() {
            let before = history[..at].iter().map(|said| json!({"role": said.seat, "content": said.content}));
            let (pieces, last) = turn(
                &server,
                &json!({
                    "target_word": target_word, "max_turns": max_turns, "seed": extra["seed"],
                    "players": {"attacker": "tiny-llama", "defender": "tiny-llama"},
                    "history": before.collect::<Vec<_>>(),
                }),
            );
            assert_eq!(last["utterance"], said.content, "{target_word}, utterance {at}");
            // What was seen meanwhile is the utterance, but for blanks.
            assert_eq!(pieces.concat().trim(), said.content.trim(), "{target_word}, utterance {at}");
            checked += 1;
        }
    }
    assert!(checked > 8, "{checked}");
}

#[test]
fn utterances_equal_those_of_spag_play_as_decoded_and_trimmed() {
    plays_as_spag_play("crates/spag-pipeline/tests/fixtures/prompts.json", &["--max_new_tokens", "8"]);
    plays_as_spag_play("configs/tiny-prompts.json", &["--top_k", "0", "--temperature", "1", "--max_new_tokens", "24"]);
}

#[test]
fn utterances_equal_those_of_spag_play_with_its_defaults() {
    plays_as_spag_play("configs/tiny-prompts.json", &[]);
}

#[test]
fn game_is_streamed_judged_and_ended() {
    let server = Cast::new(&MODELS).serve();
    let (pieces, last) = turn(&server, &game(Some("clue"), None, &[]));
    assert!(pieces.len() > 1 && pieces.concat().trim() == "It has stripes", "{pieces:?}");
    assert_eq!(last, json!({"utterance": "It has stripes", "verdict": null, "truncated_tokens": 0}));

    let (_, last) = turn(&server, &game(None, Some("right"), &["It hunts."]));
    let verdict = &last["verdict"];
    assert_eq!(
        (&verdict["ending"], &verdict["winner"], &verdict["length"]),
        (&json!("right_guess"), &json!("defender"), &json!(2))
    );
    assert_eq!(verdict["pieces"], json!([{"text": "I know the word! It is tiger", "marked": true}]));
    assert_eq!(verdict["outcome"], "defender wins");

    let judge = |game: Value| server.post("/page/judge", &game).ok()["verdict"].clone();
    assert_eq!(judge(game(None, Some("right"), &["It hunts."])), Value::Null);
    assert_eq!(judge(game(None, Some("right"), &["My tigers."]))["ending"], "broken_rule");
    assert_eq!(judge(game(None, None, &["a", "b", "c", "d"]))["ending"], "tie");
    // Every game of persons, models, or both can be judged.
    assert_eq!(judge(game(Some("gone"), Some("gone"), &["a", "A tiger"]))["ending"], "said_unknowingly");
}

#[test]
fn turns_that_cannot_be_played_are_refused() {
    let server = Cast::new(&MODELS).serve();
    let refused = |game: &Value| -> (u16, String) {
        let reply = server.post("/page/turn", game);
        (reply.status, reply.error())
    };
    for (game, status, said) in [
        (game(Some("clue"), None, &["It has stripes"]), 400, "players.defender: a person plays this seat"),
        (game(None, Some("none"), &["It hunts."]), 404, "The model `none` does not exist"),
        (game(None, Some("right"), &["My tiger."]), 400, "The game is over"),
        (game(None, Some("right"), &["a", "b", "c", "d"]), 400, "The game is over"),
        (
            game(None, Some("right"), &["a", "b", "c", "d", "e"]),
            400,
            "history: 5 utterances are more than 2 turns have",
        ),
        (game(None, Some("right"), &[" "]), 400, "history[0].content: it is empty"),
        (game(None, Some("right"), &[&"x".repeat(10_000)]), 400, "it has 10000 characters; the most is 2000"),
        (json!({}), 400, "missing field `target_word`"),
        (json!([]), 400, "The game is invalid"),
    ] {
        let (found, error) = refused(&game);
        assert!(found == status && error.contains(said), "{found} {error}");
    }
    for body in [&b""[..], b"{", b"\xff", b"{\"target_word\": \"\\ud800\"}", &vec![b'['; 200_000]] {
        let reply = server.post_with("/page/turn", body, &[("content-type", "application/json")]);
        assert!(reply.status == 400 && !reply.error().is_empty(), "{reply:?}");
    }
    let form = server.post_with("/page/judge", b"a=b", &[("content-type", "application/x-www-form-urlencoded")]);
    assert_eq!(form.status, 415);
    assert_eq!(server.get("/page/turn").status, 405);
    assert_eq!(server.post("/page/word", &json!({})).status, 405);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn games_longer_than_the_context_lose_their_beginning() {
    let server = Cast::new(&MODELS).serve();
    let long = "It has stripes and claws and teeth and fur. ".repeat(40);
    let (_, last) = turn(&server, &game(None, Some("right"), &[&long]));
    assert!(last["truncated_tokens"].as_u64() > Some(0) && last["verdict"]["ending"] == "right_guess", "{last}");
}

#[test]
fn everything_but_the_files_needs_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    fs::write(&keys, "a-key\n").unwrap();
    let runs = crate::run_routes::run_folder();
    let more = ["--api_key_file", keys.to_str().unwrap(), "--run", runs.path().to_str().unwrap()];
    let server = Cast::new(&MODELS).with(&more).serve();
    for path in ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let right = [("authorization", "Bearer a-key"), ("content-type", "application/json")];
    for path in ["/page/settings", "/page/word", "/page/run", "/page/run/games", "/page/run/game", "/page/run/report"] {
        assert_eq!(server.get(path).status, 401, "{path}");
        assert_ne!(server.get_with(path, &right).status, 401, "{path}");
    }
    let body = game(Some("clue"), None, &[]).to_string();
    for path in ["/page/turn", "/page/judge"] {
        assert_eq!(server.post(path, &json!({})).status, 401, "{path}");
        assert_eq!(server.post_with(path, body.as_bytes(), &right).status, 200, "{path}");
    }
}

/// A server whose model speaks until it is cut off, with one place.
pub(crate) fn endless(folder: &std::path::Path) -> Serve {
    let model = long_model(folder, 1 << 16);
    let config = fs::read(model.join("config.json")).unwrap();
    scripted(&model, "Tell me more", After::Repeats);
    fs::write(model.join("config.json"), config).unwrap();
    let prompts = root().join("configs/tiny-prompts.json");
    let limits = [
        "--served_model_name",
        "m",
        "--max_new_tokens",
        "8000",
        "--max_waiting",
        "0",
        "--per_device_eval_batch_size",
        "1",
    ];
    let mut arguments = vec![model.to_str().unwrap(), "--prompts", prompts.to_str().unwrap(), "--kv_cache_gib", "1"];
    arguments.extend(limits);
    Serve::start(arguments)
}

#[test]
fn full_queue_is_told_and_a_client_that_goes_frees_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let server = endless(folder.path());
    let asked = game(Some("m"), None, &[]);
    let mut stream = server.send("/page/turn", &asked);
    let mut begun = [0; 512];
    assert!(stream.read(&mut begun).unwrap() > 0);
    let full: Reply = server.post("/page/turn", &asked);
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")));
    drop(stream);
    spag_tests::wait_until("the place is free", LIMIT, || {
        server.metric("spag_sequences_running", "") == 0.0
            && server.metric("spag_sequences_ended_total", "abort") == 1.0
    });
}

#[test]
fn utterance_in_progress_ends_before_the_server_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = endless(folder.path());
    let mut asked = game(Some("m"), None, &[]);
    asked["max_turns"] = 1.into();
    let mut stream = server.send("/page/turn", &asked);
    let mut begun = [0; 512];
    assert!(stream.read(&mut begun).unwrap() > 0);
    send_signal(server.process.id(), "TERM");
    spag_tests::wait_until("new games are refused", LIMIT, || server.post("/page/turn", &asked).status == 503);
    let mut rest = String::new();
    // The connection stays open until the server ends.
    let _ = stream.read_to_string(&mut rest);
    assert!(
        rest.contains("\"utterance\":") && rest.contains("data: [DONE]"),
        "{}",
        &rest[rest.len().saturating_sub(300)..]
    );
    assert!(server.process.wait_for(LIMIT).unwrap().success());
}
