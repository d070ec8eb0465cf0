//! Reasoning around the last `\boxed{…}`.

use std::ops::Range;

use super::{SplitCompletion, part};

const BOX: &str = "\\boxed{";

/// The parts of a completion.
pub(super) fn split(text: &str) -> SplitCompletion {
    let Some(content) = last_box(text) else {
        return SplitCompletion { reasoning: part(text), utterance: None };
    };
    let around = [&text[..content.start - BOX.len()], &text[content.end + 1..]].map(part);
    let around: Vec<String> = around.into_iter().flatten().collect();
    SplitCompletion { reasoning: part(&around.join("\n")), utterance: part(&text[content]) }
}

/// The content of the last box whose braces balance. Boxes within a box are its content.
fn last_box(text: &str) -> Option<Range<usize>> {
    let (mut last, mut from) = (None, 0);
    // Without its end, a box is text, in which others may begin. Closing braces are looked for once.
    let ends = ends_of_braces(text);
    while let Some(at) = text[from..].find(BOX) {
        let start = from + at + BOX.len();
        from = start;
        if let Some(end) = ends.get(start - 1).copied().flatten() {
            last = Some(start..end);
            from = end + 1;
        }
    }
    last
}

/// For each byte that is an opening brace, the place of the one that closes it, if there is one.
fn ends_of_braces(text: &str) -> Vec<Option<usize>> {
    let (mut ends, mut open) = (vec![None; text.len()], Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open.push(at),
            b'}' => {
                if let Some(start) = open.pop() {
                    ends[start] = Some(at);
                }
            }
            _ => {}
        }
    }
    ends
}
