//! The key of an endpoint.

use std::fmt;

use crate::error::{Error, Result};

/// The variable with the key of all endpoints of one host.
pub(super) const COMMON_VARIABLE: &str = "OPENAI_API_KEY";
/// Longest key in bytes.
const LONGEST: usize = 8192;
/// Shorter keys are placeholders of local servers and may be words.
const SHORTEST_IN_UTTERANCES: usize = 8;

/// A key for the `Authorization` header. It is never printed or written to a file.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    text: String,
    variable: String,
}

impl ApiKey {
    /// A key, without surrounding white space.
    ///
    /// # Errors
    /// It is empty or not visible ASCII.
    pub fn new(key: &str) -> Result<Self> {
        Self::named(key, COMMON_VARIABLE)
    }

    /// The key in an environment variable; `None` if it is unset or empty.
    ///
    /// # Errors
    /// It is not visible ASCII.
    pub fn from_variable(name: &str) -> Result<Option<Self>> {
        match std::env::var_os(name) {
            None => Ok(None),
            Some(key) if key.is_empty() => Ok(None),
            Some(key) => Self::named(&key.to_string_lossy(), name).map(Some),
        }
    }

    fn named(key: &str, variable: &str) -> Result<Self> {
        let key = key.trim();
        if key.is_empty() || key.len() > LONGEST || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::BadKey { variable: variable.to_owned() });
        }
        Ok(Self { text: key.to_owned(), variable: variable.to_owned() })
    }

    /// The name of its environment variable.
    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    /// The value of the header.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.text)
    }

    /// `text` without the key.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&self.text, "[key]")
    }

    /// An utterance without the key. A key of a few characters is left, since it may be a word.
    pub(super) fn redact_utterance(&self, text: String) -> String {
        let is_found = self.text.len() >= SHORTEST_IN_UTTERANCES && text.contains(&self.text);
        if is_found { self.redact(&text) } else { text }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_redacted_and_never_printed() {
        let key = ApiKey::new(" sk-12345\n").unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey(…)");
        assert_eq!(key.redact("Incorrect API key: sk-12345."), "Incorrect API key: [key].");
        assert_eq!(key.bearer(), "Bearer sk-12345");
        assert_eq!(key.redact_utterance("It is sk-12345.".into()), "It is [key].");
        assert_eq!(ApiKey::new("tea").unwrap().redact_utterance("It is tea.".into()), "It is tea.");
        assert!(ApiKey::new(&"k".repeat(10_000)).is_err());
        for bad in ["", " ", "a b", "a\r\nHost: x", "schlüssel"] {
            let said = ApiKey::new(bad).unwrap_err().to_string();
            assert!(said.contains("OPENAI_API_KEY") && !said.contains("Host"), "{said}");
        }
    }
}
