//! Texts with placeholders: `{name}` of lower-case letters and `_`. All other braces are plain text.

use serde::Deserialize;

/// A text, split at its placeholders.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "String")]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Placeholder(String),
}

impl From<String> for Template {
    fn from(text: String) -> Self {
        let (mut parts, mut rest) = (Vec::new(), text.as_str());
        while let Some((before, name, after)) = next_placeholder(rest) {
            parts.extend([Part::Text(before.to_owned()), Part::Placeholder(name.to_owned())]);
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        Self(parts)
    }
}

impl Template {
    /// Appends the text with the values of its placeholders, given by name. Placeholders inside values are plain text.
    pub(super) fn append(&self, to: &mut String, values: &[(&str, &str)]) {
        for part in &self.0 {
            match part {
                Part::Text(text) => to.push_str(text),
                Part::Placeholder(name) => match values.iter().find(|(known, _)| known == name) {
                    Some((_, value)) => to.push_str(value),
                    None => to.extend(["{", name, "}"]),
                },
            }
        }
    }

    /// The text with its values.
    pub(super) fn fill(&self, values: &[(&str, &str)]) -> String {
        let mut filled = String::new();
        self.append(&mut filled, values);
        filled
    }

    /// The names of the placeholders.
    pub(super) fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Placeholder(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    pub(super) fn is_blank(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
    }
}

/// The text before the first placeholder, its name, and the text after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let length = rest.bytes().take_while(|b| b.is_ascii_lowercase() || *b == b'_').count();
        let (name, after) = rest.split_at(length);
        Some((&text[..at], name, after.strip_prefix('}')?)).filter(|_| length > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_once() {
        let template = |text: &str| Template::from(text.to_owned());
        assert_eq!(template("{a}{b} {c} {").fill(&[("a", "{b}"), ("b", "x")]), "{b}x {c} {");
        assert_eq!(template("{{a}} {} {A} }").fill(&[("a", "x")]), "{x} {} {A} }");
        assert_eq!(template("{{a}} {} {b_c} {D}").placeholders().collect::<Vec<_>>(), ["a", "b_c"]);
    }

    #[test]
    fn millions_of_braces_are_read_in_linear_time() {
        let started = std::time::Instant::now();
        for text in ["{", "{a", "}", "{a}"] {
            assert!(!Template::from(text.repeat(1_000_000)).0.is_empty());
        }
        assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
    }
}
