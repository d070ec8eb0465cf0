//! Text of a model on a terminal: readable, and without power over it.

/// A line of text with everything that could move the cursor, colour or reorder text written as an escape: control
/// characters (escape sequences begin with one) and the marks that turn the direction of writing or cannot be seen.
pub(super) fn escape(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match is_harmless(c) {
            true => out.push(c),
            false => out.extend(c.escape_default()),
        }
    }
    out
}

fn is_harmless(c: char) -> bool {
    // Unicode's Cc; zero width and directional marks (UAX #9), line and paragraph separators; byte order mark; tags.
    !(c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_is_written_out() {
        for (said, written) in [
            ("plain, naïve, 日本語 🐎", "plain, naïve, 日本語 🐎"),
            ("\x1b[2J\x07", "\\u{1b}[2J\\u{7}"),
            ("a\rb\tc\0", "a\\rb\\tc\\u{0}"),
            ("\u{9b}31m\x7f", "\\u{9b}31m\\u{7f}"),
            ("\u{202e}evil\u{2066}\u{200b}", "\\u{202e}evil\\u{2066}\\u{200b}"),
            ("back\\slash", "back\\slash"),
        ] {
            assert_eq!(escape(said), written);
        }
    }
}
