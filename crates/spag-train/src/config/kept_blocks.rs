//! The blocks whose activations are kept although others are recomputed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most blocks; no model has as many.
const MOST: usize = 65_536;

/// How many blocks keep all of their activations while the others recompute theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBlocks {
    /// So many, the last ones.
    Count(usize),
    /// As many as the memory plan has room for.
    Auto,
}

impl Default for KeptBlocks {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl FromStr for KeptBlocks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse::<usize>()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(count)) if count <= MOST => Ok(Self::Count(count)),
            _ => Err(format!("expected auto, or a number of blocks from 0 to {MOST}")),
        }
    }
}

impl fmt::Display for KeptBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl Serialize for KeptBlocks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count as u64),
            Self::Auto => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for KeptBlocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What is neither a number nor a text is refused as the empty text is.
        spag_io::number_or_text(deserializer).unwrap_or_default().parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_auto_are_read_and_written() {
        for (text, kept) in [("auto", KeptBlocks::Auto), ("0", KeptBlocks::Count(0)), ("32", KeptBlocks::Count(32))] {
            assert_eq!(text.parse(), Ok(kept));
            assert_eq!(kept.to_string(), text);
            let json = serde_json::to_string(&kept).unwrap();
            assert_eq!(serde_json::from_str::<KeptBlocks>(&json).unwrap(), kept, "{json}");
        }
        for text in ["", "-1", "all", "1.5", "65537"] {
            assert!(text.parse::<KeptBlocks>().is_err(), "{text}");
        }
        for json in ["-1", "1.5", "true", "[]", "\"many\""] {
            let error = serde_json::from_str::<KeptBlocks>(json).unwrap_err().to_string();
            assert!(error.contains("expected auto, or a number of blocks"), "{json}: {error}");
        }
    }
}
