//! Character classes and case conversion with Python's rules.

/// `str.isspace` of a character.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Whether a character has a case.
fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase()
}

/// The text with its first character in title case and the rest in lower case, as `str.capitalize`.
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return String::new() };
    title(first) + &chars.as_str().to_lowercase()
}

/// The title case of a character. If its upper case is two letters, the second is lower case.
fn title(c: char) -> String {
    // Letters with a separate title case.
    if let Some(at) = "ǆǄǉǇǌǊǳǱ".chars().position(|own| own == c) {
        return "ǅǈǋǲ".chars().nth(at / 2).into_iter().collect();
    }
    let mut upper = c.to_uppercase();
    upper.next().into_iter().chain(upper.flat_map(char::to_lowercase)).collect()
}

/// `str.title`.
pub(super) fn titled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_within = false;
    for c in text.chars() {
        if is_within {
            out.extend(c.to_lowercase());
        } else {
            out.push_str(&title(c));
        }
        is_within = is_cased(c);
    }
    out
}

/// `str.swapcase`.
pub(super) fn swapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
    }
    out
}

/// `str.casefold`.
pub(super) fn folded(text: &str) -> String {
    let fold = |c: char| {
        // Letters that are the lower case of several capitals keep their own form.
        let upper = if c == 'ı' || c.is_ascii() { c.to_string() } else { c.to_uppercase().collect() };
        upper.to_lowercase()
    };
    text.chars().map(fold).collect()
}

/// The tests of `str` such as `isalpha`, by name.
pub(super) fn is(text: &str, test: &str) -> bool {
    let all = |each: fn(char) -> bool| !text.is_empty() && text.chars().all(each);
    let cased = |other: fn(char) -> bool| text.chars().any(is_cased) && !text.chars().any(other);
    match test {
        "isalnum" => all(|c| is_letter(c) || c.is_numeric()),
        "isalpha" => all(is_letter),
        "isascii" => text.is_ascii(),
        "isdecimal" => all(is_decimal),
        "isdigit" => all(|c| is_decimal(c) || "²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉①②③④⑤⑥⑦⑧⑨".contains(c)),
        "isidentifier" => {
            let is_first = |c: char| is_letter(c) || c == '_';
            text.starts_with(is_first) && text.chars().all(|c| is_first(c) || is_decimal(c))
        }
        "islower" => cased(char::is_uppercase),
        "isnumeric" => all(char::is_numeric),
        "isprintable" => text.chars().all(crate::jinja::value::is_printable),
        "isspace" => all(is_space),
        "istitle" => is_title(text),
        _ => cased(char::is_lowercase),
    }
}

fn is_letter(c: char) -> bool {
    // Marks and letter numbers are alphabetic in Unicode only.
    c.is_alphabetic() && !c.is_numeric()
}

fn is_decimal(c: char) -> bool {
    // Blocks of ten digits with their own script.
    const ZEROS: [u32; 14] =
        [0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xff10];
    c.is_ascii_digit() || ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&u32::from(c)))
}

fn is_title(text: &str) -> bool {
    let (mut is_within, mut any) = (false, false);
    for c in text.chars() {
        if c.is_uppercase() == is_within && is_cased(c) {
            return false;
        }
        is_within = is_cased(c);
        any |= is_within;
    }
    any
}
