//! A quick reader of episodes. It takes none that `serde_json` would refuse; what it does not take may still be one.

use memchr::memchr2;

use super::{EpisodeView, JsonText, Line};
use crate::episode::{DEFAULT_TURNS, Role};

/// Lists and objects in each other, in keys that are skipped; `serde_json` allows for more.
const DEEPEST: usize = 16;
/// Digits that cannot make a number too large for an f64.
const MOST_DIGITS: usize = 40;

/// How files of episodes begin an utterance, with and without blanks, and whose it is then.
const BEGINNINGS: [(&str, Role); 4] = [
    (r#"{"role": "attacker", "content": ""#, Role::Attacker),
    (r#"{"role": "defender", "content": ""#, Role::Defender),
    (r#"{"role":"attacker","content":""#, Role::Attacker),
    (r#"{"role":"defender","content":""#, Role::Defender),
];

/// Reads a row into a view; `None` if it is anything out of the ordinary.
pub(super) fn scan<'a>(row: &'a [u8], view: &mut EpisodeView<'a>) -> Option<()> {
    let text = std::str::from_utf8(row).ok()?;
    // Asked once for the row; within strings no such byte is allowed.
    let control = row.iter().fold(false, |found, byte| found | (*byte < b' '));
    let mut cursor = Cursor { text, bytes: row, at: 0, control };
    let (mut history, mut target_word, mut max_turns) = (false, None, None);
    view.history.clear();
    cursor.object(|cursor, key| match key {
        "history" if !history => {
            history = true;
            cursor.list(|cursor| {
                view.history.push(cursor.line()?);
                Some(())
            })
        }
        "target_word" if target_word.is_none() => {
            target_word = Some(cursor.string()?);
            Some(())
        }
        "max_turns" if max_turns.is_none() => {
            max_turns = Some(cursor.count()?);
            Some(())
        }
        "history" | "target_word" | "max_turns" => None,
        _ => cursor.skip_value(DEEPEST),
    })?;
    cursor.space();
    if !history || cursor.at != row.len() {
        return None;
    }
    view.target_word = target_word?;
    view.max_turns = max_turns.unwrap_or(DEFAULT_TURNS);
    Some(())
}

/// A place in a row.
struct Cursor<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// There are control characters in the row, be it between the values or in strings.
    control: bool,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Passes white space.
    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Passes white space and the given byte.
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.space();
        let found = self.peek()? == byte;
        self.at += 1;
        found.then_some(())
    }

    /// Passes the given text if it comes next.
    fn pass(&mut self, text: &str) -> bool {
        let found = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(text.as_bytes()));
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// An object, whose values `value` reads by their keys.
    fn object(&mut self, mut value: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        self.items(b'}', |cursor| {
            let key = cursor.key()?;
            cursor.expect(b':')?;
            cursor.space();
            value(cursor, key)
        })
    }

    /// A list, whose elements `element` reads.
    fn list(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        self.items(b']', |cursor| {
            cursor.space();
            element(cursor)
        })
    }

    fn items(&mut self, end: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.space();
        if self.peek()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            item(self)?;
            self.space();
            let next = self.peek()?;
            self.at += 1;
            match next {
                b',' => {}
                next => return (next == end).then_some(()),
            }
        }
    }

    /// An utterance.
    fn line(&mut self) -> Option<Line<'a>> {
        let start = self.at;
        if let Some((_, role)) = BEGINNINGS.iter().find(|(beginning, _)| self.pass(beginning)) {
            let content = self.string_after_mark()?;
            if self.pass("}") {
                return Some(Line { role: *role, content });
            }
            // There is more to it than usual.
            self.at = start;
        }
        let (mut role, mut content) = (None, None);
        self.object(|cursor, key| match key {
            "role" if role.is_none() => {
                role = Some(match cursor.string()?.json() {
                    "attacker" => Role::Attacker,
                    "defender" => Role::Defender,
                    _ => return None,
                });
                Some(())
            }
            "content" if content.is_none() => {
                content = Some(cursor.string()?);
                Some(())
            }
            "role" | "content" => None,
            _ => cursor.skip_value(DEEPEST),
        })?;
        Some(Line { role: role?, content: content? })
    }

    /// A key without escape sequences.
    fn key(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        // Keys are short: looking at each byte is quicker than setting up a search.
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' | 0..b' ' => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(start..self.at - 1)
    }

    fn string(&mut self) -> Option<JsonText<'a>> {
        self.expect(b'"')?;
        self.string_after_mark()
    }

    /// A string whose opening quotation mark has been passed.
    fn string_after_mark(&mut self) -> Option<JsonText<'a>> {
        let (start, mut escapes) = (self.at, false);
        loop {
            self.at += memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.peek()? == b'"' {
                break;
            }
            escapes = true;
            self.at += 2;
        }
        let json = self.text.get(start..self.at)?;
        self.at += 1;
        if self.control && json.bytes().any(|byte| byte < b' ') {
            return None;
        }
        match escapes {
            false => Some(JsonText::without_escapes(json)),
            true => JsonText::with_escapes(json),
        }
    }

    /// A number of things.
    fn count(&mut self) -> Option<usize> {
        let digits = self.digits()?;
        // 2.0 and 2e0 are numbers too, but not of things.
        let ends = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        digits.parse().ok().filter(|_| ends)
    }

    /// A whole number without sign.
    fn digits(&mut self) -> Option<&'a str> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = self.text.get(start..self.at)?;
        let sound = digits == "0" || !(digits.is_empty() || digits.starts_with('0'));
        (sound && digits.len() <= MOST_DIGITS).then_some(digits)
    }

    /// Passes a value that nobody asked for.
    fn skip_value(&mut self, deep: usize) -> Option<()> {
        let deeper = deep.checked_sub(1)?;
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(|cursor, _| cursor.skip_value(deeper)),
            b'[' => self.list(|cursor| cursor.skip_value(deeper)),
            b'-' | b'0'..=b'9' => self.skip_number(),
            _ => ["true", "false", "null"].iter().any(|word| self.pass(word)).then_some(()),
        }
    }

    /// Passes a number without exponent, which may be out of range.
    fn skip_number(&mut self) -> Option<()> {
        self.pass("-");
        self.digits()?;
        if self.pass(".") {
            let start = self.at;
            while matches!(self.peek(), Some(b'0'..=b'9')) {
                self.at += 1;
            }
            (1..=MOST_DIGITS).contains(&(self.at - start)).then_some(())?;
        }
        (!matches!(self.peek(), Some(b'e' | b'E'))).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::Episode;

    /// Whether a row is read the quick way; one that is must be an episode to the parser too, and the same one.
    fn quick(row: &str) -> bool {
        let mut view = EpisodeView::default();
        let taken = scan(row.as_bytes(), &mut view).is_some();
        if taken {
            let episode: Episode = serde_json::from_str(row).unwrap();
            let mut other = EpisodeView::default();
            other.copy(&episode);
            let texts = |view: &EpisodeView<'_>| -> Vec<_> {
                view.history.iter().map(|line| (line.role, line.content.json().to_owned())).collect()
            };
            assert_eq!(texts(&view), texts(&other), "{row}");
            assert_eq!((view.target_word.text(), view.max_turns), (other.target_word.text(), other.max_turns), "{row}");
        }
        taken
    }

    #[test]
    fn what_files_hold_is_read_the_quick_way() {
        for row in [
            r#"{"history": [{"role": "attacker", "content": "a\nb"}], "target_word": "é", "max_turns": 5}"#,
            r#"{"history":[{"role":"attacker","content":""},{"role":"defender","content":"\u00e9\/"}],"target_word":"x"}"#,
            "{\n  \"target_word\": \"x\",\r\n\t\"history\": [\n {\n \"content\": \"c\",\n \"role\": \"attacker\"\n }\n ]\n}\n",
            r#"{"history": [], "target_word": "x", "game": 3, "seed": 18446744073709551615, "a": -0.50, "b": [{}, [], [1, "]"]], "c": {"d": null, "e": true}, "d": false}"#,
            r#"{"history": [{"role": "attacker", "content": "a", "score": 1}], "target_word": "x"}"#,
        ] {
            assert!(quick(row), "{row}");
        }
    }

    #[test]
    fn what_is_wrong_is_not_taken() {
        for row in [
            "",
            "{",
            "[]",
            r#"{"history": [], "target_word": "x"} x"#,
            r#"{"history": [], "target_word": "x",}"#,
            r#"{"history": [,], "target_word": "x"}"#,
            r#"{"history": [], "history": [], "target_word": "x"}"#,
            r#"{"history": [{"role": "attacker", "content": "a"}}, "target_word": "x"}"#,
            r#"{"history": [{"role": "attacker", "role": "attacker", "content": "a"}], "target_word": "x"}"#,
            r#"{"history": [{"role": "judge", "content": "a"}], "target_word": "x"}"#,
            r#"{"history": [{"role": "attacker"}], "target_word": "x"}"#,
            r#"{"history": [], "target_word": "x", "max_turns": 05}"#,
            r#"{"history": [], "target_word": "x", "max_turns": -1}"#,
            r#"{"history": [], "target_word": "x", "max_turns": 1.0}"#,
            r#"{"history": [], "target_word": "x", "max_turns": 99999999999999999999999}"#,
            r#"{"history": [], "target_word": "x", "a": 1e999}"#,
            r#"{"history": [], "target_word": "x", "a": 01}"#,
            r#"{"history": [], "target_word": "x", "a": nul}"#,
            r#"{"history": [], "target_word": "\x"}"#,
            "{\"history\": [], \"target_word\": \"a\nb\"}",
            "{\"history\": [], \"target_word\": \"a\", \"k\u{1}\": 1}",
            "{\"history\": [], \"target_word\": \"x\"\u{c}}",
        ] {
            assert!(!quick(row), "{row}");
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_judged_as_the_parser_judges_it() {
        let row = r#"{"history": [{"role": "attacker", "content": "a\nb"}, {"content": "c", "role": "defender"}], "target_word": "x", "n": [1.5, "y"], "max_turns": 5}"#;
        for end in 0..row.len() {
            quick(&row[..end]);
        }
        for at in 0..row.len() {
            for byte in [b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', b' ', b'0', b'e', 1] {
                let mut changed = row.as_bytes().to_vec();
                changed[at] = byte;
                quick(std::str::from_utf8(&changed).unwrap());
            }
        }
    }
}
