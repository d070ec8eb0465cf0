//! API keys of clients.

use std::fmt;
use std::path::Path;

use axum::http::HeaderValue;
use subtle::{Choice, ConstantTimeEq};

use crate::error::{Error, Result};

/// Maximum bytes of a key file.
const MAX_FILE: u64 = 1 << 20;
/// Maximum bytes of a key.
const LONGEST: usize = 4096;

/// Accepted keys, stored as digests.
pub struct ApiKeys(Vec<String>);

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({} keys)", self.0.len())
    }
}

impl ApiKeys {
    /// Reads the keys in a file, one per line. Empty lines are skipped.
    ///
    /// # Errors
    /// The file cannot be read, has no key, or has one that is not a valid header value.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |reason: String| Error::Keys { path: path.to_owned(), reason };
        let bytes = spag_io::read_whole(path, MAX_FILE)?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text".into()))?;
        let mut keys = Vec::new();
        for (at, key) in text.lines().map(str::trim).enumerate().filter(|(_, key)| !key.is_empty()) {
            if key.len() > LONGEST || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(wrong(format!("line {}: a key has up to {LONGEST} visible ASCII characters", at + 1)));
            }
            keys.push(spag_io::sha256(key.as_bytes()));
        }
        if keys.is_empty() { Err(wrong("it has no key; write one a line".into())) } else { Ok(Self(keys)) }
    }

    /// Whether an `Authorization` header has one of the keys. Digests of all keys are compared in constant time, so the
    /// response time leaks nothing.
    pub(crate) fn allow(&self, header: Option<&HeaderValue>) -> bool {
        let value = header.map(HeaderValue::as_bytes).unwrap_or_default();
        let scheme = b"bearer ";
        let (start, key) = value.split_at_checked(scheme.len()).unwrap_or_default();
        let digest = spag_io::sha256(key.trim_ascii());
        let found = self.0.iter().fold(Choice::from(0), |found, key| found | key.as_bytes().ct_eq(digest.as_bytes()));
        start.eq_ignore_ascii_case(scheme) && found.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<ApiKeys> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        ApiKeys::read(file.path())
    }

    #[test]
    fn a_request_is_allowed_with_one_of_the_keys_only() {
        let keys = keys("first\n\n  second \n").unwrap();
        let allows = |value: &str| keys.allow(Some(&HeaderValue::from_str(value).unwrap()));
        for right in ["Bearer first", "bearer second", "BEARER  first "] {
            assert!(allows(right), "{right}");
        }
        for wrong in
            ["", "Bearer ", "Bearer", "Basic first", "first", "Bearer firs", "Bearer first2", "Bearer second x"]
        {
            assert!(!allows(wrong), "{wrong}");
        }
        assert!(!keys.allow(None));
        assert_eq!(format!("{keys:?}"), "ApiKeys(2 keys)");
    }

    #[test]
    fn files_without_usable_keys_are_refused() {
        for (text, said) in
            [("", "no key"), ("\n \n", "no key"), ("good\nnot good\n", "line 2"), ("schlüssel", "line 1")]
        {
            let error = keys(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(ApiKeys::read("/nonexistent").is_err());
    }
}
