//! `spag env --serve`: sessions over WebSocket, single requests over HTTP, their errors and limits.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use spag_tests::web_socket::{Received, WebSocket, opcode};
use spag_tests::{Serve, fixture, program, run, send_signal, wait_until};

const SECONDS_30: Duration = Duration::from_secs(30);

fn serve(game: &str, arguments: &[&str]) -> Serve {
    let mut command = program("spag");
    command.args(["env", "--serve", "--port", "0", "--game", game]).args(arguments);
    Serve::start_command(&mut command)
}

fn open(server: &Serve) -> WebSocket {
    WebSocket::connect(server.address(), "/ws", "").unwrap()
}

fn step(socket: &mut WebSocket, text: &str) -> Value {
    socket.ask(&json!({"type": "step", "data": {"message": text}}))
}

fn reset(socket: &mut WebSocket, data: Value) -> Value {
    let answer = socket.ask(&json!({"type": "reset", "data": data}));
    assert_eq!(answer["type"], "observation", "{answer}");
    answer
}

#[test]
fn games_are_played_in_sessions() {
    let server = serve("kuhn-poker", &[]);
    let (mut one, mut two) = (open(&server), open(&server));
    let first = reset(&mut one, json!({"seed": 7, "rounds": 1, "episode_id": "mine"}));
    let (observation, state) = (&first["data"]["observation"], one.ask(&json!({"type": "state"})));
    assert_eq!((&first["data"]["reward"], &first["data"]["done"]), (&Value::Null, &false.into()));
    assert_eq!(observation["current_player_id"], 1);
    assert_eq!(observation["legal_players"], json!([1]));
    let messages = observation["messages"].as_array().unwrap();
    let categories: Vec<&str> = messages.iter().map(|message| message["category"].as_str().unwrap()).collect();
    assert_eq!(categories, ["PROMPT", "MESSAGE", "BOARD"]);
    assert_eq!(observation["prompt"], messages[0]["content"]);
    assert!(observation["info"]["private"]["card"].is_string());
    assert_eq!(observation["info"]["seed"], 7);
    assert_eq!((&state["data"]["episode_id"], &state["data"]["step_count"]), (&"mine".into(), &0.into()));
    assert_eq!(state["data"]["game"], observation["info"]["state"]);
    // The other session is another game, which the same seed repeats.
    assert_eq!(reset(&mut two, json!({"seed": 7, "rounds": 1})), first);
    let bet = step(&mut one, "[bet]");
    assert_eq!((&bet["data"]["reward"], &bet["data"]["observation"]["current_player_id"]), (&0.into(), &0.into()));
    assert_eq!(step(&mut two, "[bet]"), bet);
    // The reward is that of the player who has just acted.
    let last = step(&mut one, "[fold]");
    let info = &last["data"]["observation"]["info"];
    assert_eq!((&last["data"]["reward"], &last["data"]["done"]), (&(-1).into(), &true.into()));
    assert_eq!((&info["rewards"], &info["reason"]), (&json!({"0": -1, "1": 1}), &"chips".into()));
    assert!(info.get("private").is_none() && info.get("seed").is_none());
    assert_eq!(one.ask(&json!({"type": "state"}))["data"]["step_count"], 2);
    // A drawn seed is a seed.
    let drawn = reset(&mut one, json!({"rounds": 1}));
    let seed = &drawn["data"]["observation"]["info"]["seed"];
    assert_eq!(reset(&mut two, json!({"rounds": 1, "seed": seed})), drawn);
    one.send(opcode::TEXT, br#"{"type":"close"}"#);
    assert_eq!(one.receive(), Received::Closed(1000, String::new()));
}

#[test]
fn reasoning_of_a_step_is_no_action_and_is_shown_to_no_player() {
    let server = serve("tic-tac-toe", &["--reasoning", "think"]);
    let mut socket = open(&server);
    reset(&mut socket, json!({"seed": 7}));
    let played = step(&mut socket, "<think>secret [0]</think>[4]");
    let observation = &played["data"]["observation"];
    assert_eq!(observation["info"]["invalid"], false);
    assert_eq!(observation["info"]["state"]["board"].as_str().unwrap().find(|mark| mark != '.'), Some(4));
    let refused = step(&mut socket, "<think>secret [0]");
    assert_eq!(refused["data"]["observation"]["info"]["refusal"], "format");
    assert!(!format!("{played} {refused}").contains("secret"), "{played} {refused}");
    let (_, err) = run(program("spag").args(["env", "--game", "nim", "--serve", "--reasoning", "auto"]), 2);
    assert!(err.contains("--reasoning auto: there is no model"), "{err}");
}

#[test]
fn errors_are_named_and_lose_nothing() {
    let server = serve("tic-tac-toe", &[]);
    let mut socket = open(&server);
    let before = step(&mut socket, "[0]");
    assert_eq!(before["data"]["code"], "EXECUTION_ERROR");
    assert!(before["data"]["message"].as_str().unwrap().starts_with("SESSION_ERROR: no game is in progress"));
    reset(&mut socket, json!({"seed": 7}));
    step(&mut socket, "[0]");
    for (message, code, said) in [
        ("", "INVALID_JSON", "not JSON"),
        ("{", "INVALID_JSON", "not JSON"),
        ("[]", "INVALID_JSON", "not a JSON object"),
        ("{}", "UNKNOWN_TYPE", ""),
        (r#"{"type":"play"}"#, "UNKNOWN_TYPE", "play"),
        (r#"{"type":7}"#, "UNKNOWN_TYPE", "7"),
        (r#"{"type":"step"}"#, "VALIDATION_ERROR", "data: Field required"),
        (r#"{"type":"step","data":{}}"#, "VALIDATION_ERROR", "message: Field required"),
        (r#"{"type":"step","data":{"message":4}}"#, "VALIDATION_ERROR", "message: Input should be a valid string"),
        (r#"{"type":"step","data":{"message":"[4]","text":""}}"#, "VALIDATION_ERROR", "text: Extra inputs"),
        (r#"{"type":"reset","data":[]}"#, "VALIDATION_ERROR", "data: Input should be a valid dictionary"),
        (r#"{"type":"reset","data":{"episode_id":5}}"#, "VALIDATION_ERROR", "episode_id"),
        (r#"{"type":"reset","data":{"seed":-1}}"#, "EXECUTION_ERROR", "VALIDATION_ERROR: seed needs a whole number"),
        (r#"{"type":"reset","data":{"size":4}}"#, "EXECUTION_ERROR", "option \"size\" is unknown"),
        (r#"{"type":"state","data":{}}"#, "VALIDATION_ERROR", "data: Extra inputs"),
    ] {
        let answer = socket.ask_text(message);
        assert_eq!((&answer["type"], &answer["data"]["code"]), (&"error".into(), &code.into()), "{message}: {answer}");
        assert!(answer["data"]["message"].as_str().unwrap().contains(said), "{message}: {answer}");
    }
    let mcp = socket.ask(&json!({"type": "mcp", "data": {"jsonrpc": "2.0", "method": "tools/list", "id": 1}}));
    assert_eq!((&mcp["type"], &mcp["data"]["error"]["code"]), (&"mcp".into(), &(-32603).into()));
    socket.send(opcode::PING, b"?");
    assert_eq!(socket.frame(), Some((opcode::PONG, b"?".to_vec())));
    // The game goes on after all of them, also by messages of bytes.
    socket.send(opcode::BINARY, br#"{"type":"step","data":{"message":"[0]"}}"#);
    let Received::Json(taken) = socket.receive() else { panic!() };
    assert_eq!(taken["data"]["observation"]["info"]["refusal"], "illegal");
    assert_eq!(step(&mut socket, "[1]")["data"]["observation"]["info"]["invalid"], false);
}

#[test]
fn broken_and_huge_messages_end_their_session_only() {
    let server = serve("tic-tac-toe", &["--max_body_mib", "1"]);
    let mut other = open(&server);
    reset(&mut other, json!({"seed": 7}));
    let ends = |bytes: &[u8]| {
        let mut socket = open(&server);
        reset(&mut socket, json!({"seed": 7}));
        socket.send_bytes(bytes);
        let Received::Json(error) = socket.receive() else { panic!("no error for {:?}", &bytes[..2]) };
        assert_eq!(error["data"]["code"], "SESSION_ERROR");
        assert_eq!(socket.receive(), Received::Closed(1002, String::new()));
        error["data"]["message"].as_str().unwrap().to_owned()
    };
    ends(&[0x81, 0x02, b'{', b'}']); // no mask
    ends(&[0x83, 0x80, 0, 0, 0, 0]); // a reserved opcode
    ends(&[0xf1, 0x80, 0, 0, 0, 0]); // reserved bits
    ends(&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xff]); // no UTF-8
    ends(&[0x80, 0x80, 0, 0, 0, 0]); // the rest of no message
    ends(&[0x81, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]); // 2^63 bytes and more
    let huge = ends(&[0x81, 0xff, 0, 0, 0, 0, 0, 0x20, 0, 0, 1, 2, 3, 4]); // 2 MiB
    assert!(huge.contains("at most 1048576 bytes"), "{huge}");
    // A message of almost the limit is read.
    assert_eq!(step(&mut other, &"[".repeat((1 << 20) - 100))["data"]["observation"]["info"]["invalid"], true);
    // A client that goes away amid a message.
    let mut torn = open(&server);
    torn.send_bytes(&[0x81, 0xfe, 1, 0, 1, 2, 3, 4, b'x']);
    drop(torn);
    assert_eq!(step(&mut other, "[0]")["data"]["observation"]["info"]["invalid"], false);
}

#[test]
fn sessions_are_bounded_and_end_with_silence() {
    let server = serve("tic-tac-toe", &["--max_sessions", "1", "--session_timeout", "2"]);
    let mut first = open(&server);
    reset(&mut first, json!({}));
    let mut second = open(&server);
    let Received::Json(full) = second.receive() else { panic!() };
    assert_eq!(full["data"]["code"], "CAPACITY_REACHED");
    assert_eq!((&full["data"]["active_sessions"], &full["data"]["max_sessions"]), (&1.into(), &1.into()));
    assert_eq!(second.receive(), Received::Closed(1000, String::new()));
    let Received::Json(silent) = first.receive() else { panic!() };
    assert_eq!(silent["data"]["message"], "no message came within 2 seconds");
    assert_eq!(first.receive(), Received::Closed(1000, String::new()));
    drop(first);
    // Its place is free again.
    wait_until("a session ends", SECONDS_30, || {
        let mut third = open(&server);
        third.ask(&json!({"type": "state"}))["type"] == "state"
    });
}

#[test]
fn single_requests_have_environments_of_their_own() {
    let words = fixture("games/words.txt");
    let server = serve("dont-say-it", &["--data", words.to_str().unwrap()]);
    assert_eq!(server.get("/health").ok(), json!({"status": "healthy"}));
    assert_eq!(server.get("/state").ok(), json!({"episode_id": null, "step_count": 0}));
    assert_eq!(server.get("/metadata").ok()["name"], "dont-say-it");
    assert_eq!(server.get("/schema").ok()["action"]["required"], json!(["message"]));
    assert!(server.get("/openapi.json").ok()["paths"].get("/reset").is_some());
    let first = server.post("/reset", &json!({"seed": 7, "max_turns": 3})).ok();
    assert_eq!(first["observation"]["info"]["state"]["max_turns"], 3);
    let mut socket = open(&server);
    assert_eq!(reset(&mut socket, json!({"seed": 7, "max_turns": 3}))["data"], first);
    assert_eq!(server.post_with("/reset", b"", &[("content-type", "application/json")]).ok()["done"], false);
    for (body, field) in [(json!({}), "action"), (json!({"action": {"text": ""}}), "message")] {
        let invalid = server.post("/step", &body);
        assert_eq!((invalid.status, &invalid.json()["detail"][0]["loc"]), (422, &json!(["body", field])));
    }
    let stepped = server.post("/step", &json!({"action": {"message": "?"}}));
    assert_eq!(stepped.status, 500);
    assert!(stepped.json()["detail"].as_str().unwrap().contains("SESSION_ERROR: no game is in progress"));
    assert_eq!(server.post("/reset", &json!({"max_turns": 1})).status, 500);
    assert_eq!(server.post("/reset", &json!([])).status, 422);
    assert_eq!(server.post("/mcp", &json!({})).ok()["jsonrpc"], "2.0");
    assert_eq!((server.get("/ws").status, server.get("/nothing").status), (400, 404));
    // A message of small objects takes seventy times its size.
    let parts = format!("{{\"type\":\"step\",\"data\":[{}]}}", vec!["{}"; 100_000].join(","));
    socket.send(1, parts.as_bytes());
    let refused = socket.receive();
    assert!(format!("{refused:?}").contains("65536 lists and objects"), "{refused:?}");
    // A page of another origin opens no session.
    for (origin, is_open) in [("http://elsewhere.example", false), (server.url("").as_str(), true)] {
        let opened = WebSocket::connect(server.address(), "/ws", &format!("Origin: {origin}\r\n"));
        assert_eq!(opened.is_ok(), is_open, "{origin}");
    }
}

#[test]
fn a_signal_ends_the_sessions_and_the_server() {
    let mut server = serve("tic-tac-toe", &[]);
    let mut socket = open(&server);
    reset(&mut socket, json!({}));
    send_signal(server.process.id(), "TERM");
    assert_eq!(socket.receive(), Received::Closed(1001, "the server is ending".to_owned()));
    drop(socket);
    assert_eq!(server.process.wait_for(SECONDS_30).and_then(|status| status.code()), Some(0));
}

#[test]
fn flags_of_the_server_need_serve() {
    for arguments in [["--max_sessions", "2"], ["--port", "0"], ["--max_body_mib", "2"]] {
        let mut command = program("spag");
        command.args(["env", "--game", "nim"]).args(arguments).stdin(Stdio::null());
        let (_, err) = run(&mut command, 2);
        assert!(err.contains("--serve"), "{err}");
    }
    let (_, err) = run(program("spag").args(["env", "--game", "nims", "--serve"]), 2);
    assert!(err.contains("did you mean \"nim\"?"), "{err}");
}
