//! Shutdown of a background server.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{Access, Background, Routes, Server, ServerConfig};
use axum::routing::get;

/// A server whose `/slow` signals its start and answers after `time`.
fn server(time: Duration) -> (Background, mpsc::Receiver<()>) {
    let (begin, began) = mpsc::channel();
    let routes = |services: crate::Services| {
        let slow = async move || {
            let work = move || {
                begin.send(()).unwrap();
                std::thread::sleep(time);
                // More than a socket buffer holds.
                Ok("x".repeat(16 << 20))
            };
            services.work(work).await
        };
        Routes::new().route("/slow", Access::Everybody, get(slow))
    };
    (Server::bind_with(ServerConfig::new("127.0.0.1", 0), Vec::new(), routes).unwrap().start(), began)
}

fn ask(server: &Background) -> std::thread::JoinHandle<Result<String, ureq::Error>> {
    let url = format!("http://{}/slow", server.address());
    std::thread::spawn(move || ureq::get(url).call()?.body_mut().with_config().limit(32 << 20).read_to_string())
}

#[test]
fn dropped_server_sends_the_answers_in_progress() {
    let (server, began) = server(Duration::from_millis(300));
    let answer = ask(&server);
    began.recv().unwrap();
    drop(server);
    assert_eq!(answer.join().unwrap().unwrap().len(), 16 << 20);
}

#[test]
fn dropped_server_does_not_wait_long_for_an_answer() {
    let (server, began) = server(Duration::from_secs(120));
    let answer = ask(&server);
    began.recv().unwrap();
    let dropped = Instant::now();
    drop(server);
    assert!(dropped.elapsed() < Duration::from_secs(60));
    answer.join().unwrap().unwrap_err();
}
