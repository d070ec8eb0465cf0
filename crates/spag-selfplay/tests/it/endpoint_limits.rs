//! Limits of requests and answers of endpoints, and their keys.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use spag_selfplay::{
    ApiKey, EndpointConfig, EndpointPlayer, EndpointSpec, PromptStyle, RetryConfig, SamplingSettings, Servers,
};
use spag_tests::{Answer, Server};

use crate::endpoint::{config, play, player, reason, try_play};

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
