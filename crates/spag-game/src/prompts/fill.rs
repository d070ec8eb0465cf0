//! Placeholders in texts.

/// Replaces each `{key}` by its value in one pass, so that a value that looks like a placeholder stays as it is.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let found = values.iter().find_map(|(key, value)| {
            let tail = from.strip_prefix('{')?.strip_prefix(key)?.strip_prefix('}')?;
            Some((value, tail))
        });
        match found {
            Some((value, tail)) => {
                filled.push_str(value);
                rest = tail;
            }
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn values_are_not_filled_again() {
        assert_eq!(fill("{a}{b} {c} {", &[("a", "{b}"), ("b", "x")]), "{b}x {c} {");
    }
}
