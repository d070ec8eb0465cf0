//! Answers: observations and errors.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::game::Refusal;
use crate::message::Message;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line of JSON, without its end.
    Line(String),
    /// None: the session ends.
    Close,
}

/// What the player to move is shown after a reset or a step.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// The index of the seat to move; none at the end.
    pub player: Option<usize>,
    /// Why this action was refused.
    pub refusal: Option<Refusal>,
    /// Messages to the player that it has not been given yet, the oldest first. Empty at the end.
    pub observations: Vec<&'a Message>,
    /// What both players may know.
    pub state: Map<String, Value>,
    /// What this player alone knows; none at the end.
    pub private: Option<Map<String, Value>>,
    /// At the end, the reward of each player and the kind of ending.
    pub end: Option<([i64; 2], &'static str)>,
    /// The seed, in the answer to a reset.
    pub seed: Option<u64>,
}

impl Observation<'_> {
    /// The line of the answer.
    pub(super) fn to_line(&self) -> String {
        to_line(self)
    }
}

impl Serialize for Observation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "observation")?;
        map.serialize_entry("player", &self.player)?;
        map.serialize_entry("done", &self.end.is_some())?;
        map.serialize_entry("invalid", &self.refusal.is_some())?;
        if let Some(refusal) = self.refusal {
            map.serialize_entry("refusal", refusal.name())?;
        }
        map.serialize_entry("observations", &Shown(&self.observations))?;
        map.serialize_entry("state", &self.state)?;
        if let Some(private) = &self.private {
            map.serialize_entry("private", private)?;
        }
        if let Some(([first, second], reason)) = self.end {
            map.serialize_entry("rewards", &Rewards { first, second })?;
            map.serialize_entry("reason", reason)?;
        }
        if let Some(seed) = self.seed {
            map.serialize_entry("seed", &seed)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Rewards {
    #[serde(rename = "0")]
    first: i64,
    #[serde(rename = "1")]
    second: i64,
}

/// Messages without whom they are for.
struct Shown<'a>(&'a [&'a Message]);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct One<'a> {
            from: crate::Sender,
            kind: crate::MessageKind,
            text: &'a str,
        }
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for message in self.0 {
            list.serialize_element(&One { from: message.from, kind: message.kind, text: &message.text })?;
        }
        list.end()
    }
}

/// The code of an error. The names are those of OpenEnv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The line is not a JSON object in UTF-8.
    InvalidJson,
    /// The type of the request is unknown.
    UnknownType,
    /// A key of the request has an invalid value.
    Validation,
    /// No game is in progress.
    Session,
    /// The program failed.
    Execution,
}

impl Code {
    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidJson => "INVALID_JSON",
            Self::UnknownType => "UNKNOWN_TYPE",
            Self::Validation => "VALIDATION_ERROR",
            Self::Session => "SESSION_ERROR",
            Self::Execution => "EXECUTION_ERROR",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Why a request was not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The code.
    pub code: Code,
    /// What is wrong and what to do.
    pub message: String,
}

impl Problem {
    /// A problem.
    pub fn new(code: Code, message: String) -> Self {
        Self { code, message }
    }

    /// The line of the answer.
    pub fn to_line(&self) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            problem: &'a Problem,
        }
        to_line(&Line { r#type: "error", problem: self })
    }
}

/// The JSON of an answer.
fn to_line(answer: &impl Serialize) -> String {
    // Keys are texts and numbers are finite, so this cannot fail.
    serde_json::to_string(answer).unwrap_or_default()
}
