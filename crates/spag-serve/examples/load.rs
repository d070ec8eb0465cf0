//! Puts a running server under load: many streams at once, slow readers, and clients that leave.
//!
//! Each answer is compared with the answer to the same request alone. Prints one JSON line with latencies, and exits with 1 if
//! an answer is lost or wrong, or if pages stay in use.
//!
//! ```text
//! cargo run --release --example load -- http://127.0.0.1:8000 --clients 1000 --slow 100 --leaving 500
//! ```

use std::io::{BufRead, BufReader};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::{Value, json};

/// Different requests; the clients share them.
const REQUESTS: usize = 40;
/// Pause of a slow reader after each event.
const PAUSE: Duration = Duration::from_millis(50);
/// Stack of a client's thread.
const STACK: usize = 256 << 10;
/// Longer than any answer takes, to an agent's whole call.
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
    /// Tokens of an answer.
    #[arg(long, default_value_t = 32)]
    tokens: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Quick,
    Slow,
    Leaving,
}

/// What a client saw.
struct Seen {
    text: String,
    first: Duration,
    between: Vec<Duration>,
}

/// Request `number`: half of them greedy, half sampled with a seed.
fn request(number: usize, tokens: usize) -> Value {
    let number = number % REQUESTS;
    json!({
        "prompt": format!("Let us play a game, the word is number {number}. I say"),
        "max_tokens": tokens, "min_tokens": tokens, "stream": true,
        "temperature": if number.is_multiple_of(2) { 0.0 } else { 1.0 }, "seed": number
    })
}

fn stream(agent: &ureq::Agent, url: &str, body: &Value, kind: Kind) -> Result<Seen, String> {
    let began = Instant::now();
    let sent = agent.post(format!("{url}/v1/completions")).header("Content-Type", "application/json");
    let answer = sent.send(body.to_string()).map_err(|e| e.to_string())?;
    if answer.status() != 200 {
        return Err(format!("status {}", answer.status()));
    }
    let (mut seen, mut last) = (Seen { text: String::new(), first: Duration::ZERO, between: Vec::new() }, None);
    for line in BufReader::new(answer.into_body().into_reader()).lines() {
        let line = line.map_err(|e| e.to_string())?;
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let now = Instant::now();
        match last.replace(now) {
            None => seen.first = now - began,
            Some(last) => seen.between.push(now - last),
        }
        if data == "[DONE]" || (kind == Kind::Leaving && seen.between.len() > 2) {
            return Ok(seen);
        }
        let piece: Value = serde_json::from_str(data).map_err(|e| e.to_string())?;
        if let Some(error) = piece.get("error") {
            return Err(error.to_string());
        }
        seen.text.push_str(piece["choices"][0]["text"].as_str().unwrap_or_default());
        if kind == Kind::Slow {
            thread::sleep(PAUSE);
        }
    }
    Err("the stream ends without [DONE]".into())
}

/// The value of a metric of the server, over all models.
fn metric(agent: &ureq::Agent, url: &str, name: &str) -> Result<f64, String> {
    let mut answer = agent.get(format!("{url}/metrics")).call().map_err(|e| e.to_string())?;
    let text = answer.body_mut().read_to_string().map_err(|e| e.to_string())?;
    let values = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Milliseconds at a share of the sorted times.
fn at(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
    times.get(place).map_or(0.0, |time| (time.as_secs_f64() * 1e4).round() / 10.0)
}

fn run(arguments: &Arguments) -> Result<Value, String> {
    let Arguments { url, clients, slow, leaving, tokens } = arguments;
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    let agent: ureq::Agent = config.max_idle_connections(0).build().into();
    let alone = (0..REQUESTS).map(|number| stream(&agent, url, &request(number, *tokens), Kind::Quick));
    let alone: Arc<Vec<String>> = Arc::new(alone.map(|seen| seen.map(|seen| seen.text)).collect::<Result<_, _>>()?);
    let all = clients + leaving;
    let start = Arc::new(Barrier::new(all + 1));
    let threads = (0..all).map(|number| {
        let (agent, url, start, body) = (agent.clone(), url.clone(), start.clone(), request(number, *tokens));
        let kind = match number {
            _ if number >= *clients => Kind::Leaving,
            _ if number < *slow => Kind::Slow,
            _ => Kind::Quick,
        };
        let run = move || {
            start.wait();
            (kind, stream(&agent, &url, &body, kind))
        };
        thread::Builder::new().stack_size(STACK).spawn(run).map_err(|e| e.to_string())
    });
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
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
    // The server sees that a client has left when it writes to it.
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
        "clients": clients, "slow": slow, "leaving": leaving, "tokens": tokens,
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
