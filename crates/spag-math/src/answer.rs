//! Answers: numbers and formulas, lists, sets, intervals, equations, or texts.

use crate::LONGEST;
use crate::expr::Expr;
use crate::parse::expression;
use crate::token::{Token, tokens};

/// Parts within parts.
const DEEPEST: usize = 12;
/// Parts of a list.
const MOST_PARTS: usize = 200;

/// What an answer is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Expr(Expr),
    /// In any order: `{…}`, or parts without brackets.
    Set(Vec<Answer>),
    /// A pair, a tuple or an interval, with its brackets.
    Bracketed(char, Vec<Answer>, char),
    Union(Vec<Answer>),
    /// `=`: the first part, and the last one.
    Equation(Box<Answer>, Box<Answer>),
    /// Parts with what stands between: one more part than signs.
    Relation(Vec<Expr>, Vec<char>),
    /// Rows.
    Matrix(Vec<Vec<Answer>>),
    Text(String),
}

impl Answer {
    /// What a text is.
    pub(crate) fn read(text: &str) -> Self {
        if text.chars().take(LONGEST + 1).count() > LONGEST {
            return Self::Text(text.to_owned());
        }
        Self::parse(&tokens(text), 0).unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    fn parse(tokens: &[Token], depth: usize) -> Option<Self> {
        if depth > DEEPEST {
            return None;
        }
        if let [Token::Word(word)] = tokens {
            return Some(Self::Text(word.clone()));
        }
        let rest = without_units(tokens);
        // Letters among words are no symbols, but for a letter beside a unit.
        let is_words = rest.iter().all(|token| matches!(token, Token::Letter(_) | Token::Op(',')));
        if is_words && rest.len() < tokens.len() && tokens.len() > 2 {
            return None;
        }
        let tokens = rest.as_slice();
        let part = |tokens: &[Token]| Self::parse(tokens, depth + 1);
        let parts = |separators: &[char]| split(tokens, separators);
        let list = parts(&[',', ';']);
        if list.len() > 1 {
            return list.into_iter().filter(|part| !part.is_empty()).map(part).collect::<Option<_>>().map(Self::Set);
        }
        if let [.., last] = &parts(&['∈'])[..]
            && last.len() < tokens.len()
        {
            return part(last);
        }
        if let [first, .., last] = &parts(&['='])[..] {
            let first = part(first).unwrap_or(Self::Text(String::new()));
            return Some(Self::Equation(Box::new(first), Box::new(part(last)?)));
        }
        let signs: Vec<char> = top_level(tokens, &SIGNS).map(|(_, sign)| sign).collect();
        if !signs.is_empty() {
            let sides: Vec<Expr> = parts(&SIGNS).into_iter().map(expression).collect::<Option<_>>()?;
            return Some(Self::Relation(sides, signs));
        }
        let union = parts(&['∪']);
        if union.len() > 1 {
            return union.into_iter().map(part).collect::<Option<_>>().map(Self::Union);
        }
        if let Some((open, inner, close)) = enclosed(tokens) {
            let items = split(inner, &[',', ';']);
            if open == '{' {
                let items = items.into_iter().filter(|item| !item.is_empty());
                return items.map(part).collect::<Option<_>>().map(Self::Set);
            }
            if items.len() > 1 {
                let items = items.into_iter().map(part).collect::<Option<_>>()?;
                return Some(Self::Bracketed(open, items, close));
            }
            match part(inner) {
                Some(Self::Expr(_)) | None => {}
                other => return other,
            }
        }
        if let [Token::Command(name)] = tokens
            && ["emptyset", "varnothing"].contains(&name.as_str())
        {
            return Some(Self::Set(Vec::new()));
        }
        if is_real_line(tokens) {
            let ends = [Expr::Negative(Box::new(Expr::Infinity)), Expr::Infinity];
            return Some(Self::Bracketed('(', ends.map(Self::Expr).into(), ')'));
        }
        if let [Token::Command(begin), inner @ .., Token::Command(end)] = tokens
            && begin.starts_with("begin:")
            && end.starts_with("end:")
        {
            let is_end = |token: &Token| *token == Token::Command("\\".into());
            let rows = inner.split(is_end).filter(|row| !row.is_empty());
            let row = |row: &[Token]| split(row, &['&']).into_iter().map(part).collect::<Option<Vec<_>>>();
            return rows.map(row).collect::<Option<_>>().map(Self::Matrix);
        }
        if let Some(at) = tokens.iter().position(|token| *token == Token::Op('±')) {
            let with = |sign: char| {
                let mut tokens = tokens.to_vec();
                tokens[at] = Token::Op(sign);
                part(&tokens)
            };
            return Some(Self::Set(vec![with('+')?, with('-')?]));
        }
        expression(tokens).map(Self::Expr)
    }
}

/// Signs of relations.
const SIGNS: [char; 5] = ['<', '>', '≤', '≥', '≠'];

/// Whether the tokens are `\mathbb{R}`, or `\mathbb R`.
fn is_real_line(tokens: &[Token]) -> bool {
    let [Token::Command(font), name @ ..] = tokens else { return false };
    let is_real = |name: &[Token]| *name == [Token::Letter('R')];
    font == "mathbb"
        && (is_real(name) || matches!(name, [Token::GroupOpen, name @ .., Token::GroupClose] if is_real(name)))
}

/// The tokens without words, which are units beside a number, with their powers; and without empty groups. Words in an index are
/// kept, as in `v_{\text{max}}`.
fn without_units(tokens: &[Token]) -> Vec<Token> {
    let mut kept: Vec<Token> = Vec::with_capacity(tokens.len());
    let (mut at, mut depth_in_index) = (0, 0_usize);
    while at < tokens.len() {
        let is_index = kept.last() == Some(&Token::Op('_'));
        match &tokens[at..] {
            [token, ..] if is_index || depth_in_index > 0 => {
                match token {
                    Token::GroupOpen => depth_in_index += 1,
                    Token::GroupClose => depth_in_index = depth_in_index.saturating_sub(1),
                    _ => {}
                }
                kept.push(token.clone());
                at += 1;
            }
            [Token::Word(_), Token::Op('^'), Token::Number(_), ..] => at += 3,
            [Token::Word(_), Token::Op('^'), Token::GroupOpen, Token::Number(_), Token::GroupClose, ..] => at += 5,
            [Token::Word(_), ..] => at += 1,
            [Token::GroupOpen, Token::GroupClose, ..] if kept.last() != Some(&Token::Op('^')) => at += 2,
            [token, ..] => {
                kept.push(token.clone());
                at += 1;
            }
            [] => break,
        }
    }
    kept
}

/// Where operators are outside of all brackets.
fn top_level<'a>(tokens: &'a [Token], ops: &'a [char]) -> impl Iterator<Item = (usize, char)> + 'a {
    let mut depth = 0_usize;
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        match token {
            Token::Open(_) | Token::GroupOpen => depth += 1,
            Token::Close(_) | Token::GroupClose => depth = depth.saturating_sub(1),
            Token::Command(name) if name.starts_with("begin:") => depth += 1,
            Token::Command(name) if name.starts_with("end:") => depth = depth.saturating_sub(1),
            _ => {}
        }
        match token {
            Token::Op(op) if depth == 0 && ops.contains(op) => Some((at, *op)),
            _ => None,
        }
    })
}

/// The parts between operators that are outside of all brackets; more than a bound are one part.
fn split<'a>(tokens: &'a [Token], ops: &[char]) -> Vec<&'a [Token]> {
    let places: Vec<usize> = top_level(tokens, ops).map(|(at, _)| at).collect();
    if places.len() >= MOST_PARTS {
        return vec![tokens];
    }
    let mut start = 0;
    let mut parts: Vec<&[Token]> = Vec::with_capacity(places.len() + 1);
    for at in places {
        parts.push(&tokens[start..at]);
        start = at + 1;
    }
    parts.push(&tokens[start..]);
    parts
}

/// What is in brackets that enclose all.
fn enclosed(tokens: &[Token]) -> Option<(char, &[Token], char)> {
    let [Token::Open(open), inner @ .., Token::Close(close)] = tokens else { return None };
    let mut depth = 0_usize;
    for token in inner {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close(_) => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (depth == 0).then_some((*open, inner, *close))
}
