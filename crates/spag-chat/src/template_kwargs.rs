//! Variables of chat templates.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use spag_io::quote;

/// Variables that a chat template is rendered with beside the messages: the setting `chat_template_kwargs`. On command lines it is a
/// JSON object, in files a table too.
///
/// ```
/// let kwargs: spag_chat::TemplateKwargs = r#"{"enable_thinking": false}"#.parse().unwrap();
/// assert_eq!(kwargs.to_string(), r#"{"enable_thinking":false}"#);
/// assert!(r#"{"messages": []}"#.parse::<spag_chat::TemplateKwargs>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct TemplateKwargs(Map<String, Value>);

impl TemplateKwargs {
    /// Variables that follow from the conversation.
    const OWN: [&str; 6] =
        ["messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template"];

    /// Variables by their names.
    ///
    /// # Errors
    /// One of them follows from the conversation.
    pub fn new(variables: Map<String, Value>) -> Result<Self, String> {
        match Self::OWN.iter().find(|name| variables.contains_key(**name)) {
            Some(name) => Err(format!("{name} cannot be set here")),
            None => Ok(Self(variables)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The variables.
    pub fn variables(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl fmt::Display for TemplateKwargs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::from(self.0.clone()).fmt(f)
    }
}

impl FromStr for TemplateKwargs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let not_an_object = |_| format!("{:?} is no JSON object, such as {{\"enable_thinking\": false}}", quote(text));
        Self::new(serde_json::from_str(text).map_err(not_an_object)?)
    }
}

impl<'de> Deserialize<'de> for TemplateKwargs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a table of variables, or a JSON object as a text")]
        enum Form {
            Table(Map<String, Value>),
            Text(String),
        }
        let kwargs = match Form::deserialize(deserializer)? {
            Form::Table(variables) => Self::new(variables),
            Form::Text(text) => text.parse(),
        };
        kwargs.map_err(serde::de::Error::custom)
    }
}
