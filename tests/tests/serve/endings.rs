//! `spag serve`: a signal as soon as it listens, and clients that end what they send before they have their answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use spag_tests::{Serve, long_model, root, send_signal, wait_until};

/// Time for anything that must happen, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

#[test]
fn a_signal_right_after_listening_ends_the_server_well() {
    for _ in 0..5 {
        let mut server = Serve::start([root().join("data/tiny-llama")]);
        send_signal(server.process.id(), "TERM");
        assert_eq!(server.process.wait_for(LIMIT).unwrap().code(), Some(0));
    }
}

/// All that is sent until the server closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn serve_long() -> (tempfile::TempDir, Serve) {
    let work = tempfile::tempdir().unwrap();
    let folder = long_model(work.path(), 20_000);
    let server = Serve::start([folder.to_str().unwrap(), "--per_device_eval_batch_size", "1", "--max_waiting", "8"]);
    (work, server)
}

fn request(max_tokens: usize, stream: bool) -> Value {
    json!({"prompt": "a", "max_tokens": max_tokens, "ignore_eos": true, "temperature": 0, "stream": stream})
}

#[test]
fn a_client_that_ends_its_side_gets_its_answer() {
    let (_work, server) = serve_long();
    let whole = server.complete(&request(300, false)).ok()["choices"][0]["text"].clone();
    // One after the other, so that some wait longer than others.
    let streams: Vec<TcpStream> =
        [false, true, false, true].map(|stream| server.send("/v1/completions", &request(300, stream))).into();
    for stream in &streams {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    for (at, stream) in streams.into_iter().enumerate() {
        let answer = rest(stream);
        if at % 2 == 1 {
            let events = answer.lines().filter_map(|line| line.strip_prefix("data: {"));
            let text = events.map(|event| serde_json::from_str::<Value>(&format!("{{{event}")).unwrap());
            let text: String = text.map(|event| event["choices"][0]["text"].as_str().unwrap().to_owned()).collect();
            assert_eq!(text, whole.as_str().unwrap());
            assert!(answer.contains("data: [DONE]"), "{answer}");
        } else {
            let body = answer.rsplit("\r\n\r\n").next().unwrap();
            let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
            assert_eq!(body["choices"][0]["text"], whole);
        }
    }
    // A body whose length is known at its end only.
    let mut chunked = TcpStream::connect(server.address()).unwrap();
    let body = request(300, false).to_string();
    let head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let text = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    chunked.write_all(text.as_bytes()).unwrap();
    chunked.shutdown(Shutdown::Write).unwrap();
    assert!(rest(chunked).contains("HTTP/1.1 200"));
    // An older client knows no interim responses.
    let mut old = TcpStream::connect(server.address()).unwrap();
    let head = "POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    old.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    old.shutdown(Shutdown::Write).unwrap();
    let answer = rest(old);
    assert!(
        answer.starts_with("HTTP/1.0 200") && answer.contains(whole.as_str().unwrap().get(..8).unwrap()),
        "{answer}"
    );
    assert_eq!(server.metric("spag_sequences_ended_total", "reason=\"abort\""), 0.0);
    wait_until("the server is idle", LIMIT, || server.is_idle());
}

#[test]
fn a_client_that_ends_its_side_at_once_gets_its_answer() {
    let server = Serve::start([root().join("data/tiny-llama")]);
    let answers = |path: &str, body: &str, length: usize| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        rest(stream)
    };
    // The end may arrive before or after the body is read.
    let bodies = [1, 4].map(|tokens| request(tokens, false).to_string());
    std::thread::scope(|scope| {
        for body in &bodies {
            scope.spawn(|| {
                for _ in 0..100 {
                    let answer = answers("/v1/completions", body, body.len());
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
                }
            });
        }
    });
    // A body that is not read, and one that lacks its end: the connection ends, with an error or without an answer.
    assert!(answers("/nowhere", &bodies[0], bodies[0].len()).starts_with("HTTP/1.1 404"));
    let torn = answers("/v1/completions", "{", 100);
    assert!(torn.is_empty() || torn.starts_with("HTTP/1.1 400"), "{torn:?}");
}

#[test]
fn a_client_that_leaves_after_it_has_ended_its_side_is_noticed() {
    let (_work, server) = serve_long();
    for stream in [false, true] {
        let before = server.metric("spag_sequences_ended_total", "reason=\"abort\"");
        let first = server.send("/v1/completions", &request(19_000, true));
        wait_until("the first one runs", LIMIT, || server.metric("spag_sequences_running", "") == 1.0);
        let waiting = server.send("/v1/completions", &request(19_000, stream));
        waiting.shutdown(Shutdown::Write).unwrap();
        wait_until("the second one waits", LIMIT, || server.metric("spag_sequences_waiting", "") == 1.0);
        drop(waiting);
        drop(first);
        wait_until("the server is idle", LIMIT, || server.is_idle());
        assert_eq!(server.metric("spag_sequences_ended_total", "reason=\"abort\"") - before, 2.0);
    }
}
