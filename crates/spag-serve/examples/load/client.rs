//! A client of the load test, and its measurements.

use std::io::{BufRead, BufReader};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};

/// Number of distinct requests, shared by the clients.
pub(crate) const REQUESTS: usize = 40;
/// Pause of a slow reader after each event.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Delivery {
    /// Token by token.
    Stream,
    /// When they are complete.
    Whole,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Quick,
    Slow,
    Leaving,
}

/// Measurements of a client.
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) first: Duration,
    pub(crate) between: Vec<Duration>,
}

/// Request `number`: half of them greedy, half sampled with a seed.
pub(crate) fn request(number: usize, tokens: usize, delivery: Delivery) -> Value {
    let number = number % REQUESTS;
    json!({
        "prompt": format!("Let us play a game, the word is number {number}. I say"),
        "max_tokens": tokens, "min_tokens": tokens, "stream": delivery == Delivery::Stream,
        "temperature": if number.is_multiple_of(2) { 0.0 } else { 1.0 }, "seed": number
    })
}

/// Sends a request and reads the answer as `kind` does.
pub(crate) fn answer(agent: &ureq::Agent, url: &str, body: &Value, kind: Kind) -> Result<Seen, String> {
    let began = Instant::now();
    let sent = agent.post(format!("{url}/v1/completions")).header("Content-Type", "application/json");
    let answer = sent.send(body.to_string()).map_err(|e| e.to_string())?;
    if answer.status() != 200 {
        return Err(format!("status {}", answer.status()));
    }
    if body["stream"] == false {
        let answer: Value = serde_json::from_reader(answer.into_body().into_reader()).map_err(|e| e.to_string())?;
        let text = answer["choices"][0]["text"].as_str().unwrap_or_default().to_owned();
        return Ok(Seen { text, first: began.elapsed(), between: Vec::new() });
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
pub(crate) fn metric(agent: &ureq::Agent, url: &str, name: &str) -> Result<f64, String> {
    let mut answer = agent.get(format!("{url}/metrics")).call().map_err(|e| e.to_string())?;
    let text = answer.body_mut().read_to_string().map_err(|e| e.to_string())?;
    let values = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}
