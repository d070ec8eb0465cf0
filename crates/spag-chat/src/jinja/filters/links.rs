//! Words that are addresses.

/// The word as a link, if it is an address; brackets and stops around it are outside.
pub(super) fn linked(word: &str, limit: Option<i128>, attributes: &str, schemes: &[String]) -> String {
    let (mut head, mut middle, mut tail) = parts(word);
    for (open, close) in [("(", ")"), ("<", ">"), ("&lt;", "&gt;")] {
        // A closing bracket that was opened within belongs to the address.
        while middle.matches(open).count() > middle.matches(close).count() && tail.contains(close) {
            let end = tail.find(close).map_or(0, |at| at + close.len());
            middle.push_str(&tail[..end]);
            tail.replace_range(..end, "");
        }
    }
    let shown = match limit.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) if middle.chars().count() > limit => middle.chars().take(limit).collect::<String>() + "...",
        _ => middle.clone(),
    };
    let is_other = schemes.iter().any(|scheme| middle != *scheme && middle.starts_with(scheme.as_str()));
    if is_web(&middle) {
        let scheme = if middle.starts_with("https://") || middle.starts_with("http://") { "" } else { "https://" };
        middle = format!("<a href=\"{scheme}{middle}\"{attributes}>{shown}</a>");
    } else if let Some(mail) = middle.strip_prefix("mailto:").filter(|mail| is_mail(mail)) {
        middle = format!("<a href=\"{middle}\">{mail}</a>");
    } else if is_mail(&middle) && !middle.starts_with("www.") && !middle.contains(':') {
        middle = format!("<a href=\"mailto:{middle}\">{middle}</a>");
    } else if is_other {
        middle = format!("<a href=\"{middle}\"{attributes}>{middle}</a>");
    }
    head.push_str(&middle);
    head + &tail
}

fn parts(word: &str) -> (String, String, String) {
    let (mut begin, mut end) = (0, word.len());
    while let Some(open) = ["(", "<", "&lt;"].iter().find(|open| word[begin..].starts_with(**open)) {
        begin += open.len();
    }
    while let Some(close) = [")", ">", ".", ",", "&gt;"].iter().find(|close| word[begin..end].ends_with(**close)) {
        end -= close.len();
    }
    (word[..begin].to_owned(), word[begin..end].to_owned(), word[end..].to_owned())
}

fn is_web(text: &str) -> bool {
    let lower = text.to_lowercase();
    let stripped = ["https://", "http://"].iter().find_map(|scheme| lower.strip_prefix(scheme));
    let (has_scheme, rest) = match stripped {
        Some(rest) => (true, rest),
        None => (false, &lower[..]),
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = host.split_once(':').unwrap_or((host, "0"));
    let is_port = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &&str| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || "_%-".contains(c));
    let Some((last, before)) = labels.split_last() else { return false };
    if !is_port || !labels.iter().all(is_label) {
        return false;
    }
    let is_number = |label: &&str| label.len() <= 3 && label.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = has_scheme && labels.len() == 4 && labels.iter().all(is_number);
    let is_name = (2..=63).contains(&last.len()) && last.bytes().all(|byte| byte.is_ascii_lowercase());
    const COMMON: [&str; 8] = ["com", "net", "int", "edu", "gov", "org", "info", "mil"];
    is_address
        || is_name && (has_scheme || labels[0] == "www" && labels.len() > 1)
        || !before.is_empty() && COMMON.contains(last) && before.iter().all(|label| label.chars().count() >= 2)
}

fn is_mail(text: &str) -> bool {
    let Some((name, host)) = text.rsplit_once('@') else { return false };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let Some((domain, last)) = host.rsplit_once('.') else { return false };
    !name.is_empty()
        && domain.starts_with(is_word)
        && domain.chars().all(|c| is_word(c) || ".-".contains(c))
        && !last.is_empty()
        && last.chars().all(is_word)
}
