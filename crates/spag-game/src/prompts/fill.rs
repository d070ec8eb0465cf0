//! Placeholders in texts: `{name}`, of lower-case letters and `_`. Every other brace is a brace.

/// Replaces each `{key}` by its value in one pass, so that a value that looks like a placeholder stays as it is.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len() + values.iter().map(|(_, value)| value.len()).sum::<usize>());
    let mut rest = template;
    while let Some((before, name, after)) = next_placeholder(rest) {
        filled.push_str(before);
        match values.iter().find(|(key, _)| *key == name) {
            Some((_, value)) => filled.push_str(value),
            None => filled.extend(["{", name, "}"]),
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// The names of a text's placeholders.
pub(super) fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    let mut rest = template;
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
        assert_eq!(fill("{a}{b} {c} {", &[("a", "{b}"), ("b", "x")]), "{b}x {c} {");
        assert_eq!(fill("{{a}} {} {A} }", &[("a", "x")]), "{x} {} {A} }");
        assert_eq!(placeholders("{{a}} {} {b_c} {D}").collect::<Vec<_>>(), ["a", "b_c"]);
    }
}
