//! A small HTTP server on a real socket, which answers as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// How many came before it.
    pub(crate) number: usize,
    /// When it came.
    pub(crate) at: Instant,
    /// `POST /v1/chat/completions`.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The JSON of its body.
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn seed(&self) -> u64 {
        self.body["seed"].as_u64().unwrap()
    }

    pub(crate) fn prompt(&self) -> &str {
        self.body["messages"][0]["content"].as_str().or(self.body["prompt"].as_str()).unwrap()
    }
}

/// What the server does with a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    /// Before a word is said.
    pub(crate) delay: Duration,
    /// Bytes of the body that are sent before the connection breaks; all, where it is not given.
    pub(crate) torn_at: Option<usize>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl ToString) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string(), delay: Duration::ZERO, torn_at: None }
    }

    /// A whole completion, for either style.
    pub(crate) fn says(text: &str) -> Self {
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

    pub(crate) fn error(status: u16, message: &str) -> Self {
        Self::new(status, json!({"error": {"message": message, "type": "error"}}))
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

type Rule = dyn Fn(&Asked) -> Answer + Send + Sync;

/// The server; it ends with the test.
pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    rule: Box<Rule>,
    asked: Mutex<Vec<Asked>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    closed: AtomicBool,
}

impl Server {
    /// Answers every request by `rule`.
    pub(crate) fn start(rule: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            rule: Box::new(rule),
            asked: Mutex::default(),
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
                // A client that has gone away is what some tests are about.
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { address, state }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far, in the order in which they came.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Requests that were answered at the same time, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.state.most_at_once.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        // A connection is used for one request after another.
        while let Some((line, headers, body)) = request(&mut reader)? {
            let asked = {
                let mut all = self.asked.lock().unwrap();
                let asked = Asked { number: all.len(), at: Instant::now(), line, headers, body };
                all.push(asked.clone());
                asked
            };
            let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            let answer = (self.rule)(&asked);
            thread::sleep(answer.delay);
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            // In one piece: small ones would wait for each other on the way.
            let mut bytes = format!("HTTP/1.1 {} Status\r\nContent-Type: application/json\r\n", answer.status);
            for (name, value) in &answer.headers {
                bytes.push_str(&format!("{name}: {value}\r\n"));
            }
            bytes.push_str(&format!("Content-Length: {}\r\n\r\n", answer.body.len()));
            bytes.push_str(&answer.body[..answer.torn_at.unwrap_or(answer.body.len())]);
            stream.write_all(bytes.as_bytes())?;
            if answer.torn_at.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }
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
