//! Load test of a running server: many concurrent streams, slow readers, clients that disconnect, and hostile
//! clients.
//!
//! Each answer is compared with the answer to the same request sent alone. Prints one JSON line with latencies; exits with 1
//! if an answer is lost or wrong, or if pages stay in use.
//!
//! ```text
//! cargo run --release --example load -- http://127.0.0.1:8000 --clients 1000 --slow 100 --leaving 500
//! ```

mod client;
mod hostile;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::{Value, json};

use client::{Delivery, Kind, PAUSE, REQUESTS, answer, metric, request};

/// Stack of a client's thread.
const STACK: usize = 256 << 10;
/// Timeout of a client's whole call, longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(900);

#[derive(Parser)]
struct Arguments {
    /// The server, e.g. `http://127.0.0.1:8000`.
    url: String,
    /// Clients that stream an answer, all at once.
    #[arg(long, default_value_t = 100)]
    clients: usize,
    /// Clients among them that read slowly.
    #[arg(long, default_value_t = 0)]
    slow: usize,
    /// Further clients that leave after the third event.
    #[arg(long, default_value_t = 0)]
    leaving: usize,
    /// Connections that send nonsense, far too much, or a byte at a time, for as long as the clients run.
    #[arg(long, default_value_t = 0)]
    hostile: usize,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 32)]
    tokens: usize,
    /// How answers are sent.
    #[arg(long, value_enum, default_value_t = Delivery::Stream)]
    delivery: Delivery,
}

/// The quantile `share` of sorted times, in milliseconds.
fn at(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
    times.get(place).map_or(0.0, |time| (time.as_secs_f64() * 1e4).round() / 10.0)
}

fn run(arguments: &Arguments) -> Result<Value, String> {
    let Arguments { url, clients, slow, leaving, hostile, tokens, delivery } = arguments;
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    let agent: ureq::Agent = config.max_idle_connections(0).build().into();
    let alone = (0..REQUESTS).map(|number| answer(&agent, url, &request(number, *tokens, *delivery), Kind::Quick));
    let alone: Arc<Vec<String>> = Arc::new(alone.map(|seen| seen.map(|seen| seen.text)).collect::<Result<_, _>>()?);
    let all = clients + leaving;
    let start = Arc::new(Barrier::new(all + 1));
    let threads = (0..all).map(|number| {
        let (agent, url, start, body) =
            (agent.clone(), url.clone(), start.clone(), request(number, *tokens, *delivery));
        let kind = match number {
            _ if number >= *clients => Kind::Leaving,
            _ if number < *slow => Kind::Slow,
            _ => Kind::Quick,
        };
        let run = move || {
            start.wait();
            (kind, answer(&agent, &url, &body, kind))
        };
        thread::Builder::new().stack_size(STACK).spawn(run).map_err(|e| e.to_string())
    });
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let (stop, address) = (Arc::new(AtomicBool::new(false)), url.trim_start_matches("http://"));
    let attackers = hostile::start(*hostile, address, &stop)?;
    start.wait();
    let began = Instant::now();
    let (mut wrong, mut lost, mut first, mut between) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut quick_done = Duration::ZERO;
    for (number, thread) in threads.into_iter().enumerate() {
        let (kind, seen) = thread.join().map_err(|_| "a client panicked")?;
        match seen {
            Err(why) => lost.push(why),
            Ok(_) if kind == Kind::Leaving => {}
            Ok(seen) => {
                wrong += usize::from(seen.text != alone[number % REQUESTS]);
                if kind == Kind::Quick {
                    first.push(seen.first);
                    between.extend(seen.between);
                    quick_done = began.elapsed();
                }
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    attackers.into_iter().try_for_each(|attacker| attacker.join()).map_err(|_| "a hostile client panicked")?;
    // The server detects that a client has disconnected when it writes to it.
    let deadline = Instant::now() + Duration::from_secs(60);
    let left = loop {
        let left = [
            metric(&agent, url, "spag_sequences_running")?,
            metric(&agent, url, "spag_sequences_waiting")?,
            metric(&agent, url, "spag_kv_pages_used")?,
        ];
        if left == [0.0; 3] || Instant::now() > deadline {
            break left;
        }
        thread::sleep(PAUSE);
    };
    Ok(json!({
        "clients": clients, "slow": slow, "leaving": leaving, "hostile": hostile, "tokens": tokens, "delivery": format!("{delivery:?}"),
        "seconds": (seconds * 10.0).round() / 10.0,
        "quick_seconds": (quick_done.as_secs_f64() * 10.0).round() / 10.0,
        "tokens_per_s": ((clients * tokens) as f64 / seconds).round(),
        "first_token_ms": {"p50": at(&mut first, 0.5), "p99": at(&mut first, 0.99)},
        "next_token_ms": {"p50": at(&mut between, 0.5), "p99": at(&mut between, 0.99)},
        "wrong": wrong, "lost": lost.len(), "reason": lost.first(),
        "running_waiting_pages": left,
    }))
}

fn main() -> std::process::ExitCode {
    let found = run(&Arguments::parse());
    match found {
        Ok(report) => {
            println!("{report}");
            let good = report["wrong"] == 0
                && report["lost"] == 0
                && report["running_waiting_pages"] == json!([0.0, 0.0, 0.0]);
            if good { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
