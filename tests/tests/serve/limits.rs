//! `spag serve` and clients that are many, slow, gone, wrong or hostile; and its end.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spag_tests::{Serve, long_model, root, send_signal, wait_until};

/// Time for anything that must happen, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

fn serve(arguments: &[&str]) -> Serve {
    Serve::start([root().join("data/tiny-llama").to_str().unwrap()].iter().chain(arguments))
}

/// A server of a model with 20,000 positions, and a request that takes long. The folder must be kept.
fn serve_long(arguments: &[&str]) -> (tempfile::TempDir, Serve) {
    let work = tempfile::tempdir().unwrap();
    let folder = long_model(work.path(), 20_000);
    let model = ["--served_model_name", "long"];
    let server = Serve::start([folder.to_str().unwrap()].iter().chain(&model).chain(arguments));
    (work, server)
}

fn long_request(n: usize) -> Value {
    json!({"prompt": "a", "max_tokens": 19_000, "ignore_eos": true, "temperature": 0, "stream": true, "n": n})
}

/// Reads what has arrived, at least a byte.
fn read_some(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 1 << 16];
    let length = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Reads until a text arrives.
fn read_until(stream: &mut TcpStream, text: &str) {
    let mut all = String::new();
    while !all.contains(text) {
        let more = read_some(stream);
        assert!(!more.is_empty(), "no {text:?} in {all}");
        all.push_str(&more);
    }
}

#[test]
fn answers_do_not_depend_on_what_else_is_served() {
    let server = serve(&["--per_device_eval_batch_size", "6"]);
    let request = |at: usize| {
        let sampled = json!({"prompt": format!("Word {} of", at % 5), "max_tokens": 8 + at % 7, "temperature": 1.1, "seed": at, "logprobs": 2});
        let greedy = json!({"prompt": [[1, 5 + at, 9], [1, 7]], "max_tokens": 10, "temperature": 0, "echo": true, "logprobs": 1});
        if at.is_multiple_of(2) { sampled } else { greedy }
    };
    let answer = |at: usize| server.complete(&request(at)).ok()["choices"].to_string();
    let alone: Vec<String> = (0..24).map(answer).collect();
    thread::scope(|scope| {
        for first in 0..8 {
            let (answer, alone) = (&answer, &alone);
            scope.spawn(move || {
                for step in 0..12 {
                    let at = (first * 5 + step * 7) % 24;
                    assert_eq!(answer(at), alone[at], "request {at}");
                }
            });
        }
    });
    // Without a seed, each answer has a random one.
    let unseeded = json!({"prompt": "a", "max_tokens": 30, "temperature": 2, "ignore_eos": true});
    let texts: Vec<Value> = (0..2).map(|_| server.complete(&unseeded).ok()["choices"][0]["text"].clone()).collect();
    assert_ne!(texts[0], texts[1]);
    wait_until("the server is idle", LIMIT, || server.is_idle());
}

#[test]
fn clients_that_go_free_their_pages() {
    let (_work, server) = serve_long(&["--per_device_eval_batch_size", "4", "--max_waiting", "100"]);
    // Some decode, some wait. The first one runs before the others are sent, since connections are served in any order.
    let mut streams = vec![server.send("/v1/completions", &long_request(2))];
    read_until(&mut streams[0], "data: ");
    streams.extend((0..5).map(|_| server.send("/v1/completions", &long_request(2))));
    wait_until("all have arrived", LIMIT, || server.metric("spag_sequences_waiting", "") == 8.0);
    assert!(server.metric("spag_kv_pages_used", "") > 0.0);
    let mut whole = long_request(1);
    whole["stream"] = false.into();
    streams.push(server.send("/v1/completions", &whole));
    wait_until("the last one has arrived", LIMIT, || server.metric("spag_sequences_waiting", "") == 9.0);
    drop(streams);
    wait_until("no page is used", LIMIT, || server.is_idle());
    assert_eq!(server.metric("spag_sequences_ended_total", "reason=\"abort\""), 13.0);
    assert_eq!(server.complete(&json!({"prompt": "a", "max_tokens": 3})).status, 200);
}

#[test]
fn slow_readers_do_not_hold_up_others() {
    let (_work, server) = serve_long(&["--per_device_eval_batch_size", "64"]);
    let mut body = long_request(1);
    body["max_tokens"] = 3000.into();
    let mut slow: Vec<TcpStream> = (0..20).map(|_| server.send("/v1/completions", &body)).collect();
    slow.iter_mut().for_each(|stream| read_until(stream, "data: "));
    // The engine completes all of them, although no client reads on.
    let quick = server.complete(&json!({"prompt": "a", "max_tokens": 5}));
    assert_eq!(quick.status, 200);
    wait_until("the engine is done with the slow ones", LIMIT, || {
        server.metric("spag_sequences_ended_total", "reason=\"length\"") == 21.0 && server.is_idle()
    });
    for mut stream in slow {
        read_until(&mut stream, "data: [DONE]");
    }
}

#[test]
fn requests_beyond_the_queue_are_told_when_to_try_again() {
    let (_work, server) = serve_long(&["--per_device_eval_batch_size", "1", "--max_waiting", "1"]);
    let mut first = server.send("/v1/completions", &long_request(2));
    read_until(&mut first, "data: ");
    let small = json!({"prompt": "a", "max_tokens": 1});
    let busy = server.complete(&small);
    assert!(busy.error().contains("queue"), "{busy:?}");
    assert_eq!((busy.status, busy.header("retry-after")), (429, Some("1")));
    assert_eq!(busy.json()["error"]["code"], "rate_limit_exceeded");
    let never = server.complete(&json!({"prompt": "a", "max_tokens": 1, "n": 3}));
    assert!(never.status == 400 && never.error().contains("2 sequences"), "{never:?}");
    drop(first);
    wait_until("there is room again", LIMIT, || server.complete(&small).status == 200);
}

#[test]
fn keys_are_needed_everywhere_but_for_health() {
    let work = tempfile::tempdir().unwrap();
    let keys = work.path().join("keys");
    fs::write(&keys, "first-key\n\nsecond-key\n").unwrap();
    let origin = ["--cors_origin", "https://example.org"];
    let server = serve(&[&["--api_key_file", keys.to_str().unwrap()], &origin[..]].concat());
    assert_eq!(server.get("/health").status, 200);
    let paths = ["/v1/models", "/version", "/metrics", "/tokenizer_info", "/nothing", "/v1/completions"];
    for path in paths {
        for headers in [
            &[][..],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer first-ke")],
            &[("authorization", "Basic first-key")],
        ] {
            let reply = server.get_with(path, headers);
            assert!(reply.status == 401 && reply.error().contains("Authorization: Bearer"), "{path} {reply:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        let status = server.get_with(path, &[("authorization", "Bearer second-key")]).status;
        assert!([200, 404, 405].contains(&status), "{path} {status}");
    }
    let body = json!({"prompt": "a", "max_tokens": 1}).to_string();
    assert_eq!(server.post_with("/v1/completions", body.as_bytes(), &[]).status, 401);
    let right = [("authorization", "bearer first-key"), ("content-type", "application/json")];
    assert_eq!(server.post_with("/v1/completions", body.as_bytes(), &right).status, 200);

    // A browser asks without a key whether it may send one.
    let preflight = server.raw(
        b"OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://example.org\r\nConnection: close\r\n\
          Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,content-type\r\n\r\n",
    );
    assert!(
        preflight.starts_with("HTTP/1.1 200") && preflight.contains("access-control-allow-origin: https://example.org"),
        "{preflight}"
    );
    assert!(preflight.contains("access-control-allow-headers: authorization,content-type"), "{preflight}");
    let other = server.get_with("/health", &[("origin", "https://evil.example")]);
    assert_eq!((other.status, other.header("access-control-allow-origin")), (403, None));

    // A server without keys takes any, also the empty one that some clients send.
    assert_eq!(serve(&[]).get_with("/v1/models", &[("authorization", "Bearer ")]).status, 200);
}

#[test]
fn requests_have_limits_of_size_and_time() {
    let server = serve(&["--max_body_mib", "1", "--read_timeout", "1.5"]);
    let large = json!({"prompt": "a ".repeat(1 << 20)}).to_string();
    let reply = server.post_with("/v1/completions", large.as_bytes(), &[("content-type", "application/json")]);
    assert!(reply.status == 413 && reply.error().contains("1048576 bytes"), "{reply:?}");
    // Without a stated length.
    let mut chunked = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..40 {
        chunked.extend(b"8000\r\n");
        chunked.extend([b' '; 0x8000]);
        chunked.extend(b"\r\n");
    }
    let answer = server.raw(&chunked);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");

    let slow_body = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"prompt\"";
    let answer = server.raw(slow_body);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("within 1.5 seconds"), "{answer}");
    // Headers that never end: the connection is closed.
    let before = Instant::now();
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.set_read_timeout(Some(LIMIT)).unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A").unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(before.elapsed() >= Duration::from_secs(1), "{:?}", before.elapsed());

    let header = "x".repeat(20_000);
    let reply = server.get_with("/health", &[("x-large", &header)]);
    assert!(reply.status == 431 && reply.error().contains("16384 bytes"), "{reply:?}");
    let larger = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Large: {}\r\n\r\n", "x".repeat(200_000));
    let answer = server.raw(larger.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..200).map(|at| format!("X-{at}: y\r\n")).collect();
    let answer = server.raw(format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");

    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /%ff%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /v1/models/%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /tokenizer_info?model=%ff&model HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = server.raw(garbage);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(server.get("/health").status, 200);
    wait_until("torn requests leave nothing", LIMIT, || server.is_idle());
}

#[test]
fn the_first_signal_lets_requests_end_and_the_second_does_not() {
    let (_work, mut server) = serve_long(&[]);
    let mut body = long_request(1);
    body["max_tokens"] = 4000.into();
    let mut stream = server.send("/v1/completions", &body);
    read_until(&mut stream, "data: ");
    send_signal(server.process.id(), "TERM");
    let refused = |server: &Serve| server.complete(&json!({"prompt": "a", "max_tokens": 1})).status == 503;
    // The request may have ended before, on a fast machine; then the server is gone.
    wait_until("new requests are refused", LIMIT, || TcpStream::connect(server.address()).is_err() || refused(&server));
    read_until(&mut stream, "\"finish_reason\":\"length\"");
    let status = server.process.wait_for(LIMIT).unwrap();
    assert_eq!(status.code(), Some(0));

    let (_work, mut server) = serve_long(&[]);
    let mut stream = server.send("/v1/completions", &long_request(8));
    read_until(&mut stream, "data: ");
    send_signal(server.process.id(), "INT");
    wait_until("the server is ending", LIMIT, || server.get("/health").status == 503);
    send_signal(server.process.id(), "TERM");
    assert_eq!(server.process.wait_for(LIMIT).unwrap().code(), Some(143));
}

#[test]
fn invalid_flags_are_named() {
    let work = tempfile::tempdir().unwrap();
    let empty = work.path().join("empty");
    fs::write(&empty, "\n").unwrap();
    let tiny = root().join("data/tiny-llama");
    let tiny = tiny.to_str().unwrap();
    for (arguments, said) in [
        (vec![], "spag serve DIR"),
        (vec!["--served_model_name", "x"], "MODEL"),
        (vec![tiny, "--model", "tiny"], "expected NAME=DIR"),
        (vec![tiny, "--model", &format!("tiny-llama={tiny}")], "it is given twice"),
        (vec![tiny, "--served_model_name", "a b"], "no blanks"),
        (vec![tiny, "--max_length", "385"], "384 positions"),
        (vec![tiny, "--api_key_file", empty.to_str().unwrap()], "it has no key"),
        (vec![tiny, "--api_key_file", "/nonexistent"], "/nonexistent"),
        (vec![tiny, "--host", "256.0.0.1"], "cannot listen on 256.0.0.1"),
        (vec![tiny, "--cors_origin", "example.org"], "is not `*` or like"),
        (vec![tiny, "--allowed_host", "http://a"], "a name or an address without a port"),
        (vec![tiny, "--max_waiting", "-1"], "at least 0"),
        (vec![tiny, "--read_timeout", "0"], "at least 0.01"),
        (vec![tiny, "--port", "65536"], "--port"),
        (vec!["/nonexistent"], "/nonexistent"),
        (vec![tiny, "--prompt_format", "chat"], "no chat template"),
    ] {
        let mut command = spag_tests::program("spag");
        let (out, err) = spag_tests::run(command.arg("serve").args(&arguments), 2);
        assert!(out.is_empty() && err.contains(said), "{arguments:?} should say {said:?}: {err}");
    }
}
