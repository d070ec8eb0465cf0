//! Where rows begin and end in a piece of a file.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// Rows found in a piece of a file.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Each row's number and its bytes.
    pub(crate) rows: Vec<(usize, Range<usize>)>,
    /// Bytes that are dealt with; those behind are looked at again once more of the file is there.
    pub(crate) taken: usize,
    /// What is wrong behind the rows: the row and the reason.
    pub(crate) trouble: Option<(usize, &'static str)>,
}

/// The rows of a piece of JSONL that begins at a line's beginning; `line` counts lines over all pieces.
pub(crate) fn lines(piece: &[u8], end_of_file: bool, line: &mut usize) -> Found {
    let mut found = Found::default();
    while let Some(rest) = piece.get(found.taken..).filter(|rest| !rest.is_empty()) {
        let length = match memchr(b'\n', rest) {
            Some(at) => at + 1,
            None if end_of_file => rest.len(),
            None => break,
        };
        *line += 1;
        let row = trimmed(piece, found.taken..found.taken + length);
        if !row.is_empty() {
            found.rows.push((*line, row));
        }
        found.taken += length;
    }
    found
}

/// The range without white space around.
fn trimmed(piece: &[u8], range: Range<usize>) -> Range<usize> {
    let bytes = piece.get(range.clone()).unwrap_or_default();
    let start = range.start + (bytes.len() - bytes.trim_ascii_start().len());
    start..start + bytes.trim_ascii().len()
}

/// How far a list has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListState {
    /// Elements begun so far.
    row: usize,
    /// The closing `]` has been read.
    closed: bool,
}

impl ListState {
    /// The rows of a piece of a list: of what follows its `[`, from where the last piece was dealt with.
    pub(crate) fn split(&mut self, piece: &[u8], end_of_file: bool) -> Found {
        let mut found = Found::default();
        while found.trouble.is_none() {
            let Some(step) = self.step(piece, found.taken, end_of_file) else { break };
            match step {
                Step::Element { row, end } => {
                    self.row += 1;
                    found.rows.push((self.row, row));
                    found.taken = end;
                }
                Step::Close { end } => {
                    self.row += 1;
                    self.closed = true;
                    found.taken = end;
                }
                Step::Trouble(reason) => found.trouble = Some((self.row.max(1), reason)),
            }
        }
        found
    }

    /// What comes next; `None` where more of the file is needed, or where it ends as it should.
    fn step(&mut self, piece: &[u8], from: usize, end_of_file: bool) -> Option<Step> {
        let at = skip_space(piece, from);
        if self.closed {
            return piece.get(at).map(|_| Step::Trouble("there is something after the list's closing `]`"));
        }
        let start = match piece.get(at) {
            None if end_of_file => return self.begun("the list has no closing `]`; is the file cut off?"),
            None => return None,
            Some(b']') => return Some(Step::Close { end: at + 1 }),
            Some(b',') if self.row > 0 => skip_space(piece, at + 1),
            Some(_) if self.row > 0 => return self.begun("`,` or `]` is missing before this element of the list"),
            Some(_) => at,
        };
        let end = match element_end(piece, start) {
            Some(end) => end,
            None if end_of_file => piece.len(),
            None => return None,
        };
        if end == start && end < piece.len() {
            return self.begun("an element is missing before this `,` or `]`");
        }
        Some(Step::Element { row: start..end, end })
    }

    /// Trouble with the row that would begin here.
    fn begun(&mut self, reason: &'static str) -> Option<Step> {
        self.row += 1;
        Some(Step::Trouble(reason))
    }
}

enum Step {
    Element { row: Range<usize>, end: usize },
    Close { end: usize },
    Trouble(&'static str),
}

fn skip_space(piece: &[u8], from: usize) -> usize {
    let rest = piece.get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len())
}

/// Where the element that begins at `start` ends: at a `,` or `]` outside strings and brackets.
fn element_end(piece: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0usize);
    loop {
        match piece.get(at)? {
            b'"' => at = string_end(piece, at + 1)?,
            b'{' | b'[' => depth += 1,
            b',' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
}

/// Where the string ends whose first byte is at `at`: its closing quotation mark.
fn string_end(piece: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', piece.get(at..)?)?;
        match piece.get(at)? {
            b'"' => return Some(at),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a whole list that arrives in pieces of `step` bytes.
    fn split_list(text: &str, step: usize) -> (Vec<(usize, String)>, Option<usize>) {
        let (mut state, mut rows, mut from, mut to) = (ListState::default(), Vec::new(), 0, 0);
        loop {
            to = (to + step).min(text.len());
            let found = state.split(&text.as_bytes()[from..to], to == text.len());
            rows.extend(
                found
                    .rows
                    .into_iter()
                    .map(|(row, range)| (row, String::from_utf8_lossy(&text.as_bytes()[from..][range]).into_owned())),
            );
            if found.trouble.is_some() || to == text.len() {
                return (rows, found.trouble.map(|(row, _)| row));
            }
            from += found.taken;
        }
    }

    #[test]
    fn lists_are_split_alike_in_pieces_of_any_size() {
        for (text, rows, trouble) in [
            (" ] \n", &[][..], None),
            (r#" {"a": "],}\"\\"} , [1, {"b": 2}],3 ] "#, &[r#"{"a": "],}\"\\"} "#, r#"[1, {"b": 2}]"#, "3 "], None),
            ("1, 2", &["1", "2"], Some(3)),
            ("1,]", &["1"], Some(2)),
            (",1]", &[], Some(1)),
            ("1] x", &["1"], Some(2)),
            ("1, \"a", &["1", "\"a"], Some(3)),
            ("", &[], Some(1)),
        ] {
            for step in 1..=text.len().max(1) {
                let (found, row) = split_list(text, step);
                let texts: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
                assert_eq!((texts.as_slice(), row), (rows, trouble), "{text} in pieces of {step}");
                assert!(found.iter().enumerate().all(|(index, (row, _))| *row == index + 1), "{text}");
            }
        }
    }

    #[test]
    fn lines_count_blank_ones() {
        let mut line = 0;
        let text = b"\n a \r\n\n  \nb";
        let found = lines(text, false, &mut line);
        assert_eq!((found.rows, found.taken, line), (vec![(2, 2..3)], 10, 4));
        assert_eq!(lines(&text[10..], true, &mut line).rows, [(5, 0..1)]);
    }
}
