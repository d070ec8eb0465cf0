//! The key of an endpoint.

use std::fmt;

use crate::error::{Error, Result};

/// A key for the `Authorization` header. It is never printed or written to a file.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key, without surrounding white space.
    ///
    /// # Errors
    /// It is empty or not visible ASCII.
    pub fn new(key: &str) -> Result<Self> {
        let key = key.trim();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::BadKey);
        }
        Ok(Self(key.to_owned()))
    }

    /// The key in the environment variable `OPENAI_API_KEY`; `None` if it is unset or empty.
    ///
    /// # Errors
    /// It is not visible ASCII.
    pub fn from_env() -> Result<Option<Self>> {
        match std::env::var_os("OPENAI_API_KEY") {
            None => Ok(None),
            Some(key) if key.is_empty() => Ok(None),
            Some(key) => Self::new(key.to_str().ok_or(Error::BadKey)?).map(Some),
        }
    }

    /// The value of the header.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Removes the key from the bytes of an answer.
    pub(super) fn redact_bytes(&self, bytes: &mut Vec<u8>) {
        let key = self.0.as_bytes();
        if bytes.windows(key.len()).any(|part| part == key) {
            *bytes = self.redact(&String::from_utf8_lossy(bytes)).into_bytes();
        }
    }

    /// `text` without the key.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "[key]")
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
        for bad in ["", " ", "a b", "a\r\nHost: x", "schlüssel"] {
            let said = ApiKey::new(bad).unwrap_err().to_string();
            assert!(said.contains("OPENAI_API_KEY") && !said.contains("Host"), "{said}");
        }
    }
}
