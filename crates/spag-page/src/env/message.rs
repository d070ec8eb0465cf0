//! Messages of clients, and errors in the form of OpenEnv's.

use serde_json::{Map, Value, json};
use spag_game::session::{Code, Problem, parse_object};
use spag_serve::JsonSize;

/// What a client asks for.
pub(super) enum Incoming {
    /// A new episode, with its seed, id and options.
    Reset(Map<String, Value>),
    /// The text of the player to move.
    Step(String),
    /// The state of the episode.
    State,
    /// A request of MCP.
    Mcp(Value),
    /// The end of the session.
    Close,
}

/// A field with an invalid value, as pydantic describes it.
#[derive(Debug)]
pub(super) struct FieldFault {
    kind: &'static str,
    field: String,
    reason: &'static str,
    input: Value,
}

impl FieldFault {
    /// The fault in an error, its place below `within`.
    pub(super) fn json(&self, within: &[&str]) -> Value {
        let place: Vec<&str> = within.iter().copied().chain([self.field.as_str()]).collect();
        json!({"type": self.kind, "loc": place, "msg": self.reason, "input": self.input})
    }
}

/// Reads the fields of an object, and notes what is wrong with them.
pub(super) struct Fields {
    object: Map<String, Value>,
    faults: Vec<FieldFault>,
}

impl Fields {
    pub(super) fn new(object: Map<String, Value>) -> Self {
        Self { object, faults: Vec::new() }
    }

    fn note(&mut self, kind: &'static str, field: &str, reason: &'static str, input: Value) {
        self.faults.push(FieldFault { kind, field: field.to_owned(), reason, input });
    }

    /// A text, which must be there.
    pub(super) fn text(&mut self, field: &str) -> String {
        match self.object.shift_remove(field) {
            Some(Value::String(text)) => return text,
            Some(other) => self.note("string_type", field, "Input should be a valid string", other),
            None => self.note("missing", field, "Field required", self.object.clone().into()),
        }
        String::new()
    }

    /// An object, which must be there.
    pub(super) fn object(&mut self, field: &str) -> Map<String, Value> {
        if !self.object.contains_key(field) {
            self.note("missing", field, "Field required", self.object.clone().into());
        }
        self.optional_object(field)
    }

    /// An object, or an empty one.
    pub(super) fn optional_object(&mut self, field: &str) -> Map<String, Value> {
        match self.object.shift_remove(field) {
            Some(Value::Object(object)) => return object,
            Some(other) => self.note("dict_type", field, "Input should be a valid dictionary", other),
            None => {}
        }
        Map::new()
    }

    /// Refuses a value that is neither a text nor absent.
    pub(super) fn check_optional_text(&mut self, field: &str) {
        self.check_optional(field, Value::is_string, "string_type", "Input should be a valid string");
    }

    /// Refuses a value that is neither a seed nor absent.
    pub(super) fn check_optional_seed(&mut self, field: &str) {
        self.check_optional(field, Value::is_u64, "int_type", "Input should be an integer from 0 to 2^64-1");
    }

    fn check_optional(&mut self, field: &str, is_valid: fn(&Value) -> bool, kind: &'static str, reason: &'static str) {
        if let Some(other) = self.object.get(field).filter(|value| !is_valid(value) && !value.is_null()) {
            self.note(kind, field, reason, other.clone());
        }
    }

    /// The other fields, if nothing was wrong.
    pub(super) fn rest(self) -> Result<Map<String, Value>, Vec<FieldFault>> {
        if self.faults.is_empty() { Ok(self.object) } else { Err(self.faults) }
    }

    /// Refuses other fields.
    pub(super) fn finish(mut self) -> Result<(), Vec<FieldFault>> {
        for (field, input) in std::mem::take(&mut self.object) {
            self.note("extra_forbidden", &field, "Extra inputs are not permitted", input);
        }
        self.rest().map(drop)
    }
}

/// The text of an action: `{"message": "…", "metadata": {}}`.
pub(super) fn action(action: Map<String, Value>) -> Result<String, Vec<FieldFault>> {
    let mut fields = Fields::new(action);
    let text = fields.text("message");
    fields.optional_object("metadata");
    fields.finish()?;
    Ok(text)
}

/// Parses a message of a WebSocket. An error is the answer to it.
pub(super) fn parse(bytes: &[u8]) -> Result<Incoming, Value> {
    let many = |parts| refusal(&Problem::new(Code::InvalidJson, format!("the message has too many parts: {parts}")));
    JsonSize::default().add(bytes).map_err(many)?;
    let message = parse_object("message", bytes).map_err(|problem| refusal(&problem))?;
    let kind = message.get("type").cloned().unwrap_or_else(|| "".into());
    let mut fields = Fields::new(message);
    let finish = |mut fields: Fields| {
        fields.object.shift_remove("type");
        fields.finish()
    };
    let read = match kind.as_str() {
        Some("reset") => {
            let data = fields.optional_object("data");
            finish(fields).and_then(|()| {
                let mut data = Fields::new(data);
                data.check_optional_text("episode_id");
                data.rest().map(Incoming::Reset)
            })
        }
        Some("step") => {
            let data = fields.object("data");
            finish(fields).and_then(|()| action(data).map(Incoming::Step))
        }
        Some("mcp") => {
            let data = fields.object("data");
            finish(fields).map(|()| Incoming::Mcp(data.into()))
        }
        Some("state") => finish(fields).map(|()| Incoming::State),
        Some("close") => finish(fields).map(|()| Incoming::Close),
        _ => {
            let kind = kind.as_str().map_or_else(|| kind.to_string(), str::to_owned);
            let message = format!("Unknown message type: {}", spag_io::quote(&kind));
            return Err(error(Code::UnknownType.name(), &message, []));
        }
    };
    read.map_err(|faults| {
        let errors: Vec<Value> = faults.iter().map(|fault| fault.json(&[])).collect();
        let named: Vec<String> = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.reason)).collect();
        let message = format!("Invalid message: {}", spag_io::quote(&named.join("; ")));
        error(Code::Validation.name(), &message, [("errors", errors.into())])
    })
}

/// `{"type": "error", "data": {"message", "code", …}}`.
pub(super) fn error<const N: usize>(code: &str, message: &str, more: [(&str, Value); N]) -> Value {
    let mut data = Map::from_iter([("message".into(), message.into()), ("code".into(), code.into())]);
    data.extend(more.map(|(name, value)| (name.to_owned(), value)));
    json!({"type": "error", "data": data})
}

/// The error of a message that is not a request.
fn refusal(problem: &Problem) -> Value {
    error(problem.code.name(), &problem.message, [])
}

/// The error of a request that failed. OpenEnv has one code for all that an environment raises; the message names ours.
pub(super) fn failure(problem: &Problem) -> Value {
    error(Code::Execution.name(), &format!("{}: {}", problem.code.name(), problem.message), [])
}
