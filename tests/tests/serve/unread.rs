//! `spag serve` and answers that nobody reads.

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::json;
use spag_tests::{Serve, long_model, wait_until};

/// Time for anything that must happen, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// A server with place for four sequences, and a client that asks for four long answers and reads none of them. The folder must be
/// kept.
fn serve_unread(write_timeout: &str) -> (tempfile::TempDir, Serve, TcpStream) {
    let work = tempfile::tempdir().unwrap();
    let folder = long_model(work.path(), 4000);
    let places = ["--per_device_eval_batch_size", "4", "--max_waiting", "0", "--write_timeout", write_timeout];
    let server = Serve::start([folder.to_str().unwrap()].iter().chain(&places));
    // Some 20 MB: more than the buffers of the system hold.
    let stream = server.send(
        "/v1/completions",
        &json!({
            "prompt": "a", "max_tokens": 3900, "ignore_eos": true, "temperature": 0, "stream": true, "n": 4, "logprobs": 20
        }),
    );
    (work, server, stream)
}

fn one_token(server: &Serve) -> spag_tests::Reply {
    server.complete(&json!({"prompt": "a", "max_tokens": 1}))
}

#[test]
fn an_answer_keeps_its_places_until_it_is_read() {
    let (_work, server, mut stream) = serve_unread("600");
    wait_until("all four answers are computed", LIMIT, || {
        server.metric("spag_sequences_ended_total", "reason=\"length\"") == 4.0
    });
    let refused = one_token(&server);
    assert_eq!(refused.status, 429);
    assert!(refused.error().contains("4 sequences run, wait or are being sent"), "{refused:?}");
    let mut text = String::new();
    // The answer is whole, however late it is read.
    let mut bytes = vec![0; 1 << 20];
    while !text.contains("[DONE]") {
        let length = stream.read(&mut bytes).unwrap();
        assert!(length > 0);
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    assert_eq!(text.matches("\"finish_reason\":\"length\"").count(), 4);
    wait_until("the places are free", LIMIT, || one_token(&server).status == 200);
}

#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    let (_work, server, mut stream) = serve_unread("0.5");
    wait_until("its answers have ended", LIMIT, || server.metric("spag_sequences_ended_total", "") >= 4.0);
    wait_until("the places are free", LIMIT, || one_token(&server).status == 200);
    wait_until("the connection is closed", LIMIT, || server.metric("spag_http_connections", "") <= 1.0);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("data: ") && !rest.contains("[DONE]"));
    // A slow client is not cut off: it takes something in time.
    let mut slow = server.send(
        "/v1/completions",
        &json!({"prompt": "a", "max_tokens": 2000, "ignore_eos": true, "temperature": 0, "stream": true, "logprobs": 20}),
    );
    let (mut text, mut bytes) = (String::new(), vec![0; 1 << 18]);
    while !text.contains("[DONE]") {
        let length = slow.read(&mut bytes).unwrap();
        assert!(length > 0, "cut off after {} bytes", text.len());
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        thread::sleep(Duration::from_millis(20));
    }
    let pieces = text.lines().filter_map(|line| line.strip_prefix("data: {")).count();
    assert!(pieces >= 2000, "{pieces}");
}
