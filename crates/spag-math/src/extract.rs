//! What a completion answers.

/// Phrases after which an answer stands, in small letters; the last one that occurs counts.
const ANCHORS: [&str; 5] = ["answer is", "answer:", "answer is:", "####", "answer ="];
/// Characters of a text that are searched from its end: an answer stands there.
const SEARCHED: usize = 1 << 16;

/// The answer in a completion: what is in its last `\boxed{}`; else what follows the last "answer is"; else its last formula; else
/// its last number. Boxes and formulas with nothing but "and", "or" or a comma between are one answer.
pub fn extract(completion: &str) -> Option<String> {
    let text = tail(completion);
    let found = boxes(text).or_else(|| anchored(text)).or_else(|| formulas(text)).or_else(|| last_number(text))?;
    let found = found.trim().trim_end_matches('.').trim();
    (!found.is_empty()).then(|| found.to_owned())
}

/// The end of a text.
fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(SEARCHED);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// What is in the last boxes.
fn boxes(text: &str) -> Option<String> {
    let mut found: Vec<(usize, usize, &str)> = Vec::new();
    for name in ["\\boxed", "\\fbox"] {
        for (at, _) in text.match_indices(name) {
            let after = at + name.len();
            if let Some((inner, end)) = group(text, after) {
                found.push((at, end, inner));
            }
        }
    }
    found.sort_unstable();
    joined(text, &found)
}

/// The group after a place, and where it ends. One that does not end is none.
fn group(text: &str, after: usize) -> Option<(&str, usize)> {
    let rest = &text[after..];
    let start = after + rest.find(|c: char| !c.is_whitespace())?;
    if !text[start..].starts_with('{') {
        return None;
    }
    let mut depth = 0;
    let mut escaped = false;
    for (at, c) in text[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' if depth == 1 => return Some((&text[start + 1..start + at], start + at + 1)),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The last part, with those before it from which nothing separates it but "and", "or" or a comma.
fn joined(text: &str, found: &[(usize, usize, &str)]) -> Option<String> {
    let (last, before) = found.split_last()?;
    let (mut parts, mut start) = (vec![last.2.trim()], last.0);
    for (at, end, inner) in before.iter().rev() {
        let Some(between) = text.get(*end..start) else { continue };
        let between: String = between.chars().filter(|c| !c.is_whitespace() && !"$,;".contains(*c)).collect();
        if !["", "and", "or"].contains(&between.as_str()) {
            break;
        }
        parts.push(inner.trim());
        start = *at;
    }
    parts.reverse();
    Some(parts.join(","))
}

/// The formulas of a text, in order: places and content.
fn all_formulas(text: &str) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(['$', '\\']).map(|next| at + next) {
        let rest = &text[start..];
        let (open, close) = match () {
            () if rest.starts_with("$$") => ("$$", "$$"),
            () if rest.starts_with('$') => ("$", "$"),
            () if rest.starts_with("\\[") => ("\\[", "\\]"),
            () if rest.starts_with("\\(") => ("\\(", "\\)"),
            // An escaped sign, as of a price, begins nothing.
            () => {
                at = start + 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
        };
        let inner = start + open.len();
        let Some(end) = closing(&text[inner..], close).map(|end| inner + end) else { break };
        found.push((start, end + close.len(), &text[inner..end]));
        at = end + close.len();
    }
    found
}

/// Where a sign is that is not escaped.
fn closing(text: &str, sign: &str) -> Option<usize> {
    text.match_indices(sign).map(|(at, _)| at).find(|at| sign.starts_with('\\') || !text[..*at].ends_with('\\'))
}

fn formulas(text: &str) -> Option<String> {
    joined(text, &all_formulas(text))
}

/// What follows the last phrase of an answer, within its sentence.
fn anchored(text: &str) -> Option<String> {
    // Of the same length in bytes as the text, so that places agree.
    let small = text.to_ascii_lowercase();
    let after = ANCHORS.iter().filter_map(|phrase| small.rfind(phrase).map(|at| at + phrase.len())).max()?;
    let rest = text[after..].trim_start_matches([':', ' ', '*', '\n']);
    let found = all_formulas(rest);
    if found.first().is_some_and(|(start, ..)| rest[..*start].trim_matches([' ', ':', '*']).is_empty()) {
        let run = found.iter().scan(0, |end, one| {
            let between: String = rest[*end..one.0].chars().filter(|c| !c.is_whitespace() && *c != ',').collect();
            *end = one.1;
            ["", "and", "or"].contains(&between.as_str()).then_some(one.2.trim())
        });
        return Some(run.collect::<Vec<_>>().join(","));
    }
    let line = rest.lines().next().unwrap_or("");
    let end = line.find(". ").unwrap_or(line.len());
    let sentence = line[..end].trim_end_matches(['.', '*', ' ']);
    // A sentence about an answer is none.
    let is_short = sentence.split_whitespace().count() <= 12;
    (is_short && !sentence.is_empty()).then(|| sentence.to_owned())
}

/// The last number, with its sign, its fraction, its power of ten and its per cent.
fn last_number(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let last = bytes.iter().rposition(u8::is_ascii_digit)?;
    let start = number_start(bytes, last);
    // The exponent of `4.5e33`, `4.5e-33` or `4.5e+33`.
    let start = match bytes[..start] {
        [.., b'0'..=b'9', b'e' | b'E'] => number_start(bytes, start - 2),
        [.., b'0'..=b'9', b'e' | b'E', b'+'] => number_start(bytes, start - 3),
        _ => start,
    };
    let after = text.get(last + 1..).unwrap_or_default();
    let end = last + 1 + ["%", "\\%"].iter().find(|sign| after.starts_with(**sign)).map_or(0, |sign| sign.len());
    text.get(start..end).map(|found| found.trim_matches(['/', ',']).to_owned())
}

/// Where the number starts whose last digit is here, with its sign.
fn number_start(bytes: &[u8], last: usize) -> usize {
    let is_part = |at: usize| match bytes[at] {
        b'0'..=b'9' | b'/' => true,
        b'.' | b',' => bytes.get(at + 1).is_some_and(u8::is_ascii_digit),
        _ => false,
    };
    let mut start = last;
    while start > 0 && is_part(start - 1) {
        start -= 1;
    }
    if start > 0 && bytes[start - 1] == b'-' {
        start -= 1;
    }
    start
}
