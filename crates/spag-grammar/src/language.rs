//! Languages that a completion can be constrained to.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Whitespace between the parts of JSON: one blank, or a new line with its indentation. Limited, since a model can
/// repeat whitespace forever.
const JSON_BLANKS: &str = r"\x20|\x0D?\x0A[\x20\x09]{0,32}";

/// A set of texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Language {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema, which may only reference itself.
    JsonSchema(Value),
    /// Texts that fully match a regular expression in the syntax of the crate `regex`, without look-around.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A context-free grammar in Lark notation, as read by llguidance.
    Lark(String),
}

/// Maximum number of choices.
const MAX_CHOICES: usize = 1 << 14;
/// Maximum bytes of all choices.
const MAX_CHOICE_BYTES: usize = 1 << 18;
/// Maximum bytes of a JSON schema or a regular expression.
const MAX_BYTES: usize = 1 << 16;
/// Maximum bytes of a Lark grammar, the slowest to compile: time can grow quadratically.
const MAX_LARK_BYTES: usize = 1 << 15;

/// Fails if `found` exceeds `most`.
fn within(what: &'static str, found: usize, most: usize) -> Result<usize> {
    if found <= most { Ok(found) } else { Err(Error::TooLarge { what, found, most }) }
}

impl Language {
    /// Checks the size limits, in time independent of the content.
    ///
    /// # Errors
    /// The language is too large.
    pub fn check_size(&self) -> Result<()> {
        self.size().map(drop)
    }

    /// The size in bytes, which bounds the compiler's stack.
    pub(crate) fn size(&self) -> Result<usize> {
        match self {
            Self::JsonObject => Ok(0),
            Self::JsonSchema(schema) => within("bytes", schema.to_string().len(), MAX_BYTES),
            Self::Regex(regex) => within("bytes", regex.len(), MAX_BYTES),
            Self::Lark(grammar) => within("bytes", grammar.len(), MAX_LARK_BYTES),
            Self::Choice(choices) => {
                within("choices", choices.len(), MAX_CHOICES)?;
                within("bytes in all choices", choices.iter().map(String::len).sum(), MAX_CHOICE_BYTES).map(|_| 0)
            }
        }
    }

    /// The grammar in the types of `llguidance`.
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
                // A terminal, from which the library builds a trie in linear time. It accepts at most 2000 alternatives in a
                // rule.
                TopLevelGrammar::from_lark(format!("start: CHOICE\nCHOICE: {}", choices.join(" | ")))
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
