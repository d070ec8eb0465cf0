//! An HTTP server on a real socket whose answers a test chooses.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The number of requests before it.
    pub number: usize,
    /// When it was received.
    pub at: Instant,
    /// Method and path, e.g. `POST /v1/chat/completions`.
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, or null if it is not JSON.
    pub body: Value,
}

impl Received {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The seed in the body.
    pub fn seed(&self) -> u64 {
        self.body["seed"].as_u64().unwrap()
    }

    /// The prompt in the body, of either endpoint style.
    pub fn prompt(&self) -> &str {
        self.body["messages"][0]["content"].as_str().or(self.body["prompt"].as_str()).unwrap()
    }
}

/// A response.
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers besides the content's type and length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// Time before anything is sent.
    pub delay: Duration,
    /// If given, the connection is closed after so many bytes of the body.
    pub torn_at: Option<usize>,
}

impl Answer {
    /// A response without extra headers, delay or fault.
    pub fn new(status: u16, body: impl ToString) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string(), delay: Duration::ZERO, torn_at: None }
    }

    /// A completion, for either endpoint style.
    pub fn says(text: &str) -> Self {
        Self::new(
            200,
            json!({
                "object": "chat.completion",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "text": text,
                             "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
            }),
        )
    }

    /// An error in the format of OpenAI's API.
    pub fn error(status: u16, message: &str) -> Self {
        Self::new(status, json!({"error": {"message": message, "type": "error"}}))
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Sets the delay.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

type Rule = dyn Fn(&Received) -> Answer + Send + Sync;

/// The server. Dropped, it accepts no more connections.
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    rule: Box<Rule>,
    models: Answer,
    models_asked: AtomicUsize,
    received: Mutex<Vec<Received>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    closed: AtomicBool,
}

impl Server {
    /// Starts a server that answers every request with what `rule` returns, except one for the list of models, which it does not
    /// have.
    pub fn start(rule: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::with_models(Answer::error(404, "no such path"), rule)
    }

    /// Starts a server that has a list of models, which is not among the requests that it received.
    pub fn with_models(models: Answer, rule: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            rule: Box::new(rule),
            models,
            models_asked: AtomicUsize::new(0),
            received: Mutex::default(),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.closed.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), shared.clone());
                // An error means that the client closed the connection, which some tests provoke.
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { address, state }
    }

    /// The base URL of the API.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far, in the order of arrival.
    pub fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// How often the list of models was asked for.
    pub fn models_asked(&self) -> usize {
        self.state.models_asked.load(Ordering::SeqCst)
    }

    /// The largest number of requests that were in progress at once.
    pub fn most_at_once(&self) -> usize {
        self.state.most_at_once.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        // A connection wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        // Keep-alive: a connection carries several requests.
        while let Some((line, headers, body)) = request(&mut reader)? {
            if line == "GET /v1/models" {
                self.models_asked.fetch_add(1, Ordering::SeqCst);
                send(&mut stream, &self.models)?;
                continue;
            }
            let received = {
                let mut all = self.received.lock().unwrap();
                let received = Received { number: all.len(), at: Instant::now(), line, headers, body };
                all.push(received.clone());
                received
            };
            let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            let answer = (self.rule)(&received);
            thread::sleep(answer.delay);
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            send(&mut stream, &answer)?;
            if answer.torn_at.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn send(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
    // One write: Nagle's algorithm would delay several small ones.
    let mut bytes = format!("HTTP/1.1 {} Status\r\nContent-Type: application/json\r\n", answer.status);
    for (name, value) in &answer.headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str(&format!("Content-Length: {}\r\n\r\n", answer.body.len()));
    bytes.push_str(&answer.body[..answer.torn_at.unwrap_or(answer.body.len())]);
    stream.write_all(bytes.as_bytes())
}

type Parts = (String, Vec<(String, String)>, Value);

fn request(reader: &mut impl BufRead) -> std::io::Result<Option<Parts>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, v)| v.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let first = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Ok(Some((first, headers, serde_json::from_slice(&body).unwrap_or(Value::Null))))
}
