//! Lines of a width, and links.

use std::collections::VecDeque;

use super::attributes::is_set;
use crate::jinja::arguments::{Args, given};
use crate::jinja::error::{Result, fail};
use crate::jinja::run::Run;
use crate::jinja::text::{is_space, joined, lines};
use crate::jinja::value::{self, Value};

/// `text|wordwrap(…)`: `textwrap.wrap` of each line.
pub(super) fn wordwrap(run: &Run, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [width, breaks, between, hyphens] = args.bind("wordwrap", names, 0)?;
    let width = width.map_or(Ok(79), |width| width.int())?;
    let Some(width) = usize::try_from(width).ok().filter(|width| *width > 0) else {
        return fail!("invalid width {width} (must be > 0)");
    };
    let breaks = breaks.is_none() || is_set(breaks.as_ref())?;
    let hyphens = hyphens.is_none() || is_set(hyphens.as_ref())?;
    let between = given(between).map_or(Ok("\n".to_owned()), |between| value::text(budget, &between))?;
    let text = value::text(budget, value)?;
    let mut wrapped = Vec::new();
    for line in lines(&text, false) {
        budget.values(line.len())?;
        wrapped.push(joined(budget, &wrap(line, width, breaks, hyphens), &between)?);
    }
    Value::text(budget, joined(budget, &wrapped, &between)?)
}

/// Words and blanks; words are split after hyphens between letters.
fn chunks(line: &str, hyphens: bool) -> Vec<VecDeque<char>> {
    let chars: Vec<char> = line.chars().collect();
    let letter = |at: usize| chars.get(at).is_some_and(|c| c.is_alphabetic());
    let mut chunks: Vec<VecDeque<char>> = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        let is_new = at == 0 || is_space(*c) != is_space(chars[at - 1]) || {
            let before = at >= 3 && chars[at - 1] == '-' && letter(at - 2);
            let is_word = before && (letter(at - 3) || chars[at - 3] == '-' && at >= 4 && letter(at - 4));
            hyphens && is_word && letter(at) && (letter(at + 1) || chars.get(at + 1) == Some(&'-') && letter(at + 2))
        };
        match chunks.last_mut() {
            Some(last) if !is_new => last.push_back(*c),
            _ => chunks.push(VecDeque::from([*c])),
        }
    }
    chunks
}

fn wrap(line: &str, width: usize, breaks: bool, hyphens: bool) -> Vec<String> {
    let is_blank = |chunk: &VecDeque<char>| chunk.iter().all(|c| is_space(*c));
    let mut left: VecDeque<VecDeque<char>> = chunks(line, hyphens).into();
    let mut lines: Vec<String> = Vec::new();
    while !left.is_empty() {
        if !lines.is_empty() && left.front().is_some_and(is_blank) {
            left.pop_front();
        }
        let (mut taken, mut len): (Vec<VecDeque<char>>, usize) = (Vec::new(), 0);
        while left.front().is_some_and(|chunk| len + chunk.len() <= width) {
            let chunk = left.pop_front().unwrap_or_default();
            len += chunk.len();
            taken.push(chunk);
        }
        if let Some(long) = left.front_mut().filter(|chunk| chunk.len() > width) {
            if breaks {
                let fits = (width - len).max(usize::from(len == 0)).min(long.len());
                taken.push(long.drain(..fits).collect());
            } else if taken.is_empty() {
                taken.extend(left.pop_front());
            }
        }
        if taken.last().is_some_and(is_blank) {
            taken.pop();
        }
        if !taken.is_empty() {
            lines.push(taken.into_iter().flatten().collect());
        }
    }
    lines
}

/// Bytes of an address that becomes a link.
const WORD: usize = 4096;

/// `text|urlize(…)`: links of addresses.
pub(super) fn urlize(run: &Run, value: &Value, args: Args) -> Result<Value> {
    let names = ["trim_url_limit", "nofollow", "target", "rel", "extra_schemes"];
    let [limit, nofollow, target, rel, schemes] = args.bind("urlize", names, 0)?;
    let budget = &run.budget;
    let limit = given(limit).map(|limit| limit.int()).transpose()?;
    let mut relations: Vec<String> = match given(rel) {
        Some(rel) => rel.str()?.split(is_space).filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        None => Vec::new(),
    };
    if is_set(nofollow.as_ref())? {
        relations.push("nofollow".into());
    }
    relations.push("noopener".into());
    relations.sort();
    relations.dedup();
    let mut attributes = format!(" rel=\"{}\"", crate::jinja::text::escape_text(budget, &relations.join(" "))?.text);
    if let Some(target) = given(target) {
        attributes += &format!(" target=\"{}\"", crate::jinja::text::escape_value(budget, &target)?.text);
    }
    let schemes = match given(schemes) {
        Some(list) => {
            value::items(budget, &list)?.iter().map(|each| value::text(budget, each)).collect::<Result<_>>()?
        }
        None => Vec::new(),
    };
    let text = crate::jinja::text::escape_value(budget, value)?.text;
    let mut out = Vec::new();
    let mut rest = &*text;
    while !rest.is_empty() {
        let is_blank = rest.starts_with(is_space);
        let end = rest.find(|c| is_space(c) != is_blank).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        budget.text(word.len().saturating_mul(2) + attributes.len())?;
        out.push(if is_blank || word.len() > WORD {
            word.to_owned()
        } else {
            super::links::linked(word, limit, &attributes, &schemes)
        });
    }
    Value::text(budget, out.concat())
}
