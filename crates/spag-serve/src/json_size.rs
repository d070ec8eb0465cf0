//! Bounds the memory of parsed JSON before parsing, since small objects take seventy times the size of their text.

use std::fmt;

/// Maximum number of lists and objects.
const MAX_CONTAINERS: usize = 1 << 16;
/// Maximum number of members of all objects.
const MAX_MEMBERS: usize = 1 << 17;
/// Maximum number of elements of all lists and members of all objects.
const MAX_VALUES: usize = 1 << 21;

/// Counts the parts of JSON texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonSize {
    containers: usize,
    members: usize,
    values: usize,
}

/// JSON with more parts than a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyParts {
    what: &'static str,
    most: usize,
}

impl fmt::Display for TooManyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, most } = self;
        write!(f, "it has more than {most} {what}, the most of a request; send several requests")
    }
}

impl JsonSize {
    /// Adds a text, which may be invalid.
    ///
    /// # Errors
    /// All texts together have too many parts.
    pub fn add(&mut self, text: &[u8]) -> Result<(), TooManyParts> {
        let mut is_text = false;
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => is_text = !is_text,
                b'\\' if is_text => drop(bytes.next()),
                b'[' | b'{' if !is_text => {
                    self.containers += 1;
                    self.values += 1;
                }
                b':' if !is_text => self.members += 1,
                b',' if !is_text => self.values += 1,
                _ => {}
            }
        }
        let Self { containers, members, values } = *self;
        let counts = [
            ("lists and objects", containers, MAX_CONTAINERS),
            ("members of objects", members, MAX_MEMBERS),
            ("values", values, MAX_VALUES),
        ];
        match counts.into_iter().find(|(_, found, most)| found > most) {
            Some((what, _, most)) => Err(TooManyParts { what, most }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> (usize, usize, usize) {
        let mut size = JsonSize::default();
        size.add(text.as_bytes()).unwrap();
        (size.containers, size.members, size.values)
    }

    #[test]
    fn parts_outside_of_texts_are_counted() {
        assert_eq!(size("3"), (0, 0, 0));
        assert_eq!(size(r#"{"a": [1, 2, {"b:,[{": "\",:[\\"}], "c": "}"}"#), (3, 3, 6));
        assert_eq!(size("\"\\"), (0, 0, 0));
    }

    #[test]
    fn many_parts_are_refused_also_in_several_texts() {
        let refused = |unit: &str, number: usize| {
            let mut size = JsonSize::default();
            let half = unit.repeat(number / 2);
            let (first, second) = (size.add(half.as_bytes()), size.add(half.as_bytes()));
            assert_eq!(first, Ok(()), "{unit}");
            second.unwrap_err().to_string()
        };
        assert!(refused("{}", 2 * MAX_CONTAINERS - 2).contains("65536 lists and objects"));
        assert!(refused("\"a\":1", 2 * MAX_MEMBERS - 2).contains("131072 members"));
        assert!(refused("1,", 2 * MAX_VALUES - 2).contains("2097152 values"));
    }
}
