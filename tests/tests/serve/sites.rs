//! `spag serve` and pages of other sites, in the browser of a person on its machine.

use std::process::Command;

use serde_json::json;
use spag_tests::{Serve, program, root};

fn command(arguments: &[&str]) -> Command {
    let mut command = program("spag");
    command.arg("serve").arg(root().join("data/tiny-llama")).args(["--port", "0"]).args(arguments);
    command
}

const JSON: (&str, &str) = ("content-type", "application/json");

/// What a request to each kind of route gets.
fn statuses(server: &Serve, headers: &[(&str, &str)]) -> Vec<u16> {
    let body = json!({"prompt": "a", "max_tokens": 1}).to_string();
    let gets =
        ["/health", "/metrics", "/v1/models", "/page/settings", "/"].map(|path| server.get_with(path, headers).status);
    let posted = server.post_with("/v1/completions", body.as_bytes(), &[&[JSON], headers].concat()).status;
    gets.into_iter().chain([posted]).collect()
}

#[test]
fn names_that_lead_to_this_machine_are_not_answered_unless_they_are_allowed() {
    let server = Serve::start_command(&mut command(&["--allowed_host", "play.example.org"]));
    let port = server.address().port();
    for host in ["localhost", "127.0.0.1", "[::1]", "play.example.org"] {
        assert_eq!(statuses(&server, &[("host", &format!("{host}:{port}"))]), [200; 6], "{host}");
    }
    for host in ["evil.example", "0.0.0.0", "localhost.evil.example"] {
        assert_eq!(statuses(&server, &[("host", &format!("{host}:{port}"))]), [403; 6], "{host}");
    }
    let refused = server.get_with("/page/settings", &[("host", "evil.example")]);
    assert!(refused.error().contains("--allowed_host"), "{refused:?}");
    assert_eq!(server.metric("spag_sequences_ended_total", ""), 4.0);
    for head in
        ["GET /page/settings HTTP/1.1\r\n", "GET http://evil.example/page/settings HTTP/1.1\r\nHost: localhost\r\n"]
    {
        let answer = server.raw(format!("{head}Connection: close\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    // On all networks it has names that it does not know.
    let open = Serve::start_command(&mut command(&["--host", "0.0.0.0"]));
    assert_eq!(statuses(&open, &[("host", "machine.example")]), [200; 6]);
    let named = Serve::start_command(&mut command(&["--host", "0.0.0.0", "--allowed_host", "machine.example"]));
    assert_eq!(statuses(&named, &[("host", "machine.example")]), [200; 6]);
    assert_eq!(statuses(&named, &[("host", "evil.example")]), [403; 6]);
}

#[test]
fn pages_of_other_origins_use_nothing_unless_they_are_allowed() {
    let server = Serve::start_command(&mut command(&["--cors_origin", "https://example.org"]));
    let own = server.url("");
    for origin in [own.as_str(), "https://example.org"] {
        assert_eq!(statuses(&server, &[("origin", origin)]), [200; 6], "{origin}");
    }
    for origin in ["http://evil.example", "null", "http://localhost"] {
        assert_eq!(statuses(&server, &[("origin", origin)]), [403; 6], "{origin}");
    }
    // What a browser sends for a page without asking.
    let body = json!({"prompt": "a", "max_tokens": 1}).to_string();
    for headers in
        [&[][..], &[("content-type", "text/plain")], &[("content-type", "application/x-www-form-urlencoded")]]
    {
        for path in ["/v1/completions", "/v1/chat/completions", "/tokenize", "/page/turn", "/v1/load_lora_adapter"] {
            assert_eq!(server.post_with(path, body.as_bytes(), headers).status, 415, "{path} {headers:?}");
        }
    }
    let with_charset = [("content-type", "application/json; charset=utf-8")];
    assert_eq!(server.post_with("/v1/completions", body.as_bytes(), &with_charset).status, 200);
    let preflight = |origin: &str| {
        let asked = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n";
        server.raw(
            format!("OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: close\r\n{asked}\r\n")
                .as_bytes(),
        )
    };
    assert!(preflight("https://example.org").starts_with("HTTP/1.1 200"));
    assert!(preflight("http://evil.example").starts_with("HTTP/1.1 403"));
}
