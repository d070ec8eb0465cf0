//! Texts with placeholders: `{name}` of lower-case letters and `_`. All other braces are plain text.

use serde::Deserialize;
use spag_io::PromptText;

/// A text, split at its placeholders.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "String")]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Placeholder(String),
}

/// The value of a placeholder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Of the wordings or the rules.
    Own(&'a str),
    /// An utterance, or a target word.
    Said(&'a str),
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
    pub(super) fn append(&self, to: &mut PromptText, values: &[(&str, Value<'_>)]) {
        for part in &self.0 {
            match part {
                Part::Text(text) => to.push(text),
                Part::Placeholder(name) => match values.iter().find(|(known, _)| known == name) {
                    Some((_, Value::Own(value))) => to.push(value),
                    Some((_, Value::Said(value))) => to.push_said(value),
                    None => ["{", name, "}"].into_iter().for_each(|text| to.push(text)),
                },
            }
        }
    }

    /// The text with values of the wordings.
    pub(super) fn fill(&self, values: &[(&str, &str)]) -> String {
        let mut filled = PromptText::default();
        let values: Vec<_> = values.iter().map(|(name, value)| (*name, Value::Own(value))).collect();
        self.append(&mut filled, &values);
        filled.into_text()
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
        let mut prompt = PromptText::default();
        template("a{b}{c}").append(&mut prompt, &[("b", Value::Own("{c}")), ("c", Value::Said("{b}"))]);
        assert_eq!((prompt.text(), prompt.said()), ("a{c}{b}", &[4..7][..]));
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
