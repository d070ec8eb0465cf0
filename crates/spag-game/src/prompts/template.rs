//! Texts with placeholders: `{name}`, of lower-case letters and `_`. Every other brace is a brace.

/// A text, cut where its values go.
#[derive(Clone, Debug)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// The place of the value among those that are filled in.
    Value(usize),
}

impl Template {
    /// A text in which the placeholders of the given names are to be filled in; others stay as they are.
    pub(super) fn new(text: &str, names: &[&str]) -> Self {
        let (mut parts, mut rest, mut plain) = (Vec::new(), text, String::new());
        while let Some((before, name, after)) = next_placeholder(rest) {
            plain.push_str(before);
            match names.iter().position(|known| *known == name) {
                Some(value) => parts.extend([Part::Text(std::mem::take(&mut plain)), Part::Value(value)]),
                None => plain.extend(["{", name, "}"]),
            }
            rest = after;
        }
        parts.push(Part::Text(plain + rest));
        Self(parts)
    }

    /// Appends the text with the values, in the order of their names. A value that looks like a placeholder stays as it
    /// is.
    pub(super) fn append(&self, to: &mut String, values: &[&str]) {
        for part in &self.0 {
            to.push_str(match part {
                Part::Text(text) => text,
                Part::Value(at) => values.get(*at).copied().unwrap_or_default(),
            });
        }
    }

    /// The text with the values.
    pub(super) fn fill(&self, values: &[&str]) -> String {
        let mut filled = String::new();
        self.append(&mut filled, values);
        filled
    }
}

/// The names of a text's placeholders.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, name, after) = next_placeholder(rest)?;
        rest = after;
        Some(name)
    })
}

/// The text before the first placeholder, its name, and the text after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (name, after) = text[at + 1..].split_once('}')?;
        let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        named.then_some((&text[..at], name, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_filled_again() {
        assert_eq!(Template::new("{a}{b} {c} {", &["a", "b"]).fill(&["{b}", "x"]), "{b}x {c} {");
        assert_eq!(Template::new("{{a}} {} {A} }", &["a"]).fill(&["x"]), "{x} {} {A} }");
        assert_eq!(placeholders("{{a}} {} {b_c} {D}").collect::<Vec<_>>(), ["a", "b_c"]);
    }
}
