//! `spag serve` or `spag watch` as a process, and a client of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{Running, copy_folder, json, program, root};

/// A server that listens on a free port. Dropped, it is killed.
pub struct Serve {
    /// The process.
    pub process: Running,
    address: SocketAddr,
    agent: ureq::Agent,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body.
    pub text: String,
}

impl Reply {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The body, if the request was served.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The message of an error in the form of OpenAI's API.
    pub fn error(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        let has_form = ["type", "param", "code"].iter().all(|key| error.get(key).is_some());
        assert!(has_form && error["type"].is_string(), "{self:?}");
        error["message"].as_str().unwrap().to_owned()
    }

    /// The events of a stream, without `[DONE]`, which must be the last.
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.header("content-type"), Some("text/event-stream; charset=utf-8"));
        let mut data: Vec<&str> =
            self.text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.text);
        data.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

impl Serve {
    /// Starts `spag serve` with these arguments and waits until it listens.
    pub fn start<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self::start_on(0, arguments)
    }

    /// As [`Serve::start`], on a port; 0 is any free one.
    pub fn start_on<S: AsRef<std::ffi::OsStr>>(port: u16, arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = program("spag");
        command.arg("serve").args(arguments).args(["--port", &port.to_string()]);
        Self::start_command(&mut command)
    }

    /// Starts `spag watch` of a run folder on a free port.
    pub fn watch(run_dir: &Path) -> Self {
        Self::start_command(program("spag").arg("watch").arg(run_dir).args(["--port", "0"]))
    }

    /// A client of a server that another process runs beside its own work.
    pub fn of(process: Running, address: SocketAddr) -> Self {
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(300)));
        Self { process, address, agent: config.build().into() }
    }

    /// Starts a command that serves, and waits until it says where.
    pub fn start_command(command: &mut Command) -> Self {
        let mut process = Running::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        Self::of(process, address.unwrap_or_else(|| panic!("the server says {line:?}")))
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a route.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// `GET path`.
    pub fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[])
    }

    /// `GET path` with headers.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = self.agent.get(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(request.call())
    }

    /// `POST path` with JSON.
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_with(path, body.to_string().as_bytes(), &[("content-type", "application/json")])
    }

    /// `POST path` with any body and headers.
    pub fn post_with(&self, path: &str, body: &[u8], headers: &[(&str, &str)]) -> Reply {
        let mut request = self.agent.post(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(request.send(body))
    }

    /// `POST /v1/completions`.
    pub fn complete(&self, body: &Value) -> Reply {
        self.post("/v1/completions", body)
    }

    /// `POST /v1/chat/completions`.
    pub fn chat(&self, body: &Value) -> Reply {
        self.post("/v1/chat/completions", body)
    }

    /// Whether no sequence runs or waits, and no page is in use.
    pub fn is_idle(&self) -> bool {
        ["spag_sequences_running", "spag_sequences_waiting", "spag_kv_pages_used"]
            .iter()
            .all(|name| self.metric(name, "") == 0.0)
    }

    /// The sum of a metric over all models, of samples whose labels contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let reply = self.get("/metrics");
        let samples = reply.text.lines().filter_map(|line| line.rsplit_once(' '));
        let is_wanted = |key: &str| key.split('{').next() == Some(name) && key.contains(label);
        samples.filter(|(key, _)| is_wanted(key)).map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    }

    /// A connection on which `POST path` was sent, for clients that read slowly or not at all.
    pub fn send(&self, path: &str, body: &Value) -> TcpStream {
        let (mut stream, body) = (TcpStream::connect(self.address).unwrap(), body.to_string());
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream
    }

    /// What the server answers to bytes that may not be HTTP, until it closes the connection.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        // The server may answer and close before all is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn reply(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Reply {
    let mut response = response.unwrap_or_else(|e| panic!("no response: {e}"));
    let pairs = response.headers().iter();
    let headers = pairs.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let text = response.body_mut().with_config().limit(1 << 30).read_to_string().unwrap();
    Reply { status: response.status().as_u16(), headers, text }
}

/// A copy of `data/tiny-llama` in `folder` with more positions, so that a completion can be long.
pub fn long_model(folder: &Path, positions: usize) -> PathBuf {
    copy_folder(root().join("data/tiny-llama"), folder);
    let path = folder.join("config.json");
    let mut config = json(&path);
    config["max_position_embeddings"] = positions.into();
    std::fs::write(path, config.to_string()).unwrap();
    folder.to_owned()
}
