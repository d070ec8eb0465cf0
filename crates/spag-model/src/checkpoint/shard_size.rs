//! Maximum size of a weight file, in transformers' notation: `5GB`, `200MB`, or bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum bytes of a weight file. A larger tensor gets its own file.
///
/// ```
/// use spag_model::checkpoint::ShardSize;
/// assert_eq!("200MB".parse::<ShardSize>().unwrap().bytes(), 200_000_000);
/// assert_eq!("2GiB".parse::<ShardSize>().unwrap().to_string(), "2147483648");
/// assert!("5Gb".parse::<ShardSize>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSize(u64);

/// A million gigabytes: more than any model.
const MAX: u64 = 1_000_000_000_000_000;
const UNITS: [(&str, u64); 8] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl ShardSize {
    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl Default for ShardSize {
    /// 5 GB, as in transformers.
    fn default() -> Self {
        Self(5_000_000_000)
    }
}

impl FromStr for ShardSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Gigabits, "5Gb", are not accepted: they are usually a typo.
        let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, unit) = unit.unwrap_or((text, 1));
        let number = number.trim_end().parse::<u64>().ok();
        number
            .and_then(|number| number.checked_mul(unit))
            .filter(|bytes| (1..=MAX).contains(bytes))
            .map(Self)
            .ok_or_else(|| "expected a size from 1 byte to 1000TB, such as 5GB, 200MB, 2GiB or 5000000000".to_owned())
    }
}

impl fmt::Display for ShardSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().take(4).find(|(_, unit)| self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => self.0.fmt(f),
        }
    }
}

impl Serialize for ShardSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ShardSize {
    /// A text, or a number of bytes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        spag_io::number_or_text(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_transformers_are_read_and_written() {
        for (text, bytes, written) in [
            ("5GB", 5_000_000_000, "5GB"),
            ("200MB", 200_000_000, "200MB"),
            ("50KB", 50_000, "50KB"),
            ("1TB", 1_000_000_000_000, "1TB"),
            ("2GiB", 2 << 30, "2147483648"),
            ("5 GB", 5_000_000_000, "5GB"),
            ("1234", 1234, "1234"),
            ("1", 1, "1"),
        ] {
            let size: ShardSize = text.parse().unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, written), "{text}");
            let json = serde_json::to_string(&size).unwrap();
            assert_eq!(serde_json::from_str::<ShardSize>(&json).unwrap(), size);
        }
        assert_eq!(serde_json::from_str::<ShardSize>("1000").unwrap().bytes(), 1000);
        assert_eq!(ShardSize::default().to_string(), "5GB");
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for text in
            ["", "0", "0GB", "-1GB", "5Gb", "5gb", "1.5GB", "GB", "x", "1001TB", "18446744073709551616", "5GBGB"]
        {
            let error = text.parse::<ShardSize>().unwrap_err();
            assert!(error.contains("such as 5GB"), "{text}: {error}");
        }
    }
}
