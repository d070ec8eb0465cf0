//! Lower case.

/// `text` in lower case, in memory that is used again.
pub(super) fn lower_into<'a>(lower: &'a mut String, text: &str) -> &'a str {
    if text.is_ascii() {
        lower.clear();
        lower.push_str(text);
        lower.make_ascii_lowercase();
    } else {
        // A letter can depend on its neighbours and change its length.
        *lower = text.to_lowercase();
    }
    lower
}
