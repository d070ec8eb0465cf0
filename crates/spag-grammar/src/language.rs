//! What a completion may be.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Blanks between the parts of JSON: one, or a new line and its indentation. A model can go on with more for ever.
const JSON_BLANKS: &str = r"\x20|\x0D?\x0A[\x20\x09]{0,32}";

/// A set of texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Language {
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema, with references within it alone.
    JsonSchema(Value),
    /// What a regular expression matches as a whole, in the syntax of the crate `regex`, without look-around.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A context-free grammar in Lark's notation, as llguidance reads it.
    Lark(String),
}

impl Language {
    /// As `llguidance` has it.
    pub(crate) fn grammar(&self) -> Result<TopLevelGrammar> {
        let wrong = |what: &str| Err(Error::Language(what.to_owned()));
        Ok(match self {
            Self::JsonObject => of_schema(json!({"type": "object"})),
            Self::JsonSchema(Value::Bool(true)) => of_schema(json!({})),
            Self::JsonSchema(schema @ Value::Object(_)) => of_schema(schema.clone()),
            Self::JsonSchema(_) => return wrong("a JSON schema is an object"),
            Self::Regex(regex) => TopLevelGrammar::from_regex(regex),
            Self::Choice(choices) if choices.is_empty() => return wrong("there is nothing to choose from"),
            Self::Choice(choices) if choices.iter().any(String::is_empty) => return wrong("a choice is empty"),
            Self::Choice(choices) => {
                let choices: Vec<String> =
                    choices.iter().map(|choice| Value::from(choice.as_str()).to_string()).collect();
                TopLevelGrammar::from_lark(format!("start: {}", choices.join(" | ")))
            }
            Self::Lark(grammar) => TopLevelGrammar::from_lark(grammar.clone()),
        })
    }
}

fn of_schema(mut schema: Value) -> TopLevelGrammar {
    if let Value::Object(schema) = &mut schema {
        schema.entry("x-guidance").or_insert(json!({"whitespace_pattern": JSON_BLANKS}));
    }
    TopLevelGrammar::from_json_schema(schema)
}
