//! The lexer, which splits a template as Jinja's does.

use std::fmt;
use std::sync::Arc;

use super::literals::{number, string};
use crate::jinja::Dialect;
use crate::jinja::error::{Error, Result};
use crate::jinja::text::is_space;

/// A token with its line.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Text outside of tags.
    Text(Arc<str>),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(Arc<str>),
    String(Arc<str>),
    Int(i128),
    Float(f64),
    Operator(&'static str),
    End,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("text"),
            Self::VariableBegin => f.write_str("`{{`"),
            Self::VariableEnd => f.write_str("`}}`"),
            Self::BlockBegin => f.write_str("`{%`"),
            Self::BlockEnd => f.write_str("`%}`"),
            Self::Name(name) => write!(f, "`{}`", name.chars().take(50).collect::<String>()),
            Self::String(_) => f.write_str("a string"),
            Self::Int(value) => write!(f, "`{value}`"),
            Self::Float(value) => write!(f, "`{value}`"),
            Self::Operator(operator) => write!(f, "`{operator}`"),
            Self::End => f.write_str("the end of the template"),
        }
    }
}

/// Operators, longest first.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";",
];

pub(super) fn tokens(source: &str, dialect: Dialect) -> Result<Vec<Token>> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if !dialect.keeps_last_newline() && source.ends_with('\n') {
        source.pop();
    }
    let mut lexer = Lexer { rest: &source, line: 1, line_begins: true, dialect, tokens: Vec::new() };
    lexer.all().map_err(|error| error.at(lexer.line))?;
    lexer.push(Kind::End);
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    rest: &'s str,
    line: usize,
    /// Whether the last tag ended with a line break.
    line_begins: bool,
    dialect: Dialect,
    tokens: Vec<Token>,
}

impl<'s> Lexer<'s> {
    fn push(&mut self, kind: Kind) {
        self.tokens.push(Token { line: self.line, kind });
    }

    /// Takes bytes of the rest.
    fn take(&mut self, len: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count();
        taken
    }

    fn all(&mut self) -> Result<()> {
        while let Some(at) = tag(self.rest) {
            let kind = self.rest.as_bytes()[at + 1];
            self.text_before_tag(at, kind);
            if kind == b'#' {
                let end = self.rest.find("#}").ok_or_else(|| Error::new("a comment has no end"))?;
                let sign = self.take(end).chars().last();
                self.end_of_tag(sign, 2);
            } else if kind == b'{' {
                self.push(Kind::VariableBegin);
                self.inside("}}", Kind::VariableEnd)?;
            } else if let Some((len, sign)) = word_tag(self.rest, "raw") {
                self.take(len);
                if sign == Some('-') {
                    self.take(spaces(self.rest));
                }
                self.raw()?;
            } else {
                self.push(Kind::BlockBegin);
                self.inside("%}", Kind::BlockEnd)?;
            }
        }
        let rest = self.take(self.rest.len());
        self.text(rest);
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(Kind::Text(text.into()));
        }
    }

    /// Adds the text before a tag, and the tag's opening with its whitespace sign.
    fn text_before_tag(&mut self, at: usize, kind: u8) {
        let sign = self.rest.as_bytes().get(at + 2);
        let text = &self.rest[..at];
        let kept = match sign {
            Some(b'-') => text.trim_end_matches(is_space),
            Some(b'+') => text,
            _ if kind != b'{' && self.dialect.trims_blocks() => {
                let begin = text.rfind('\n').map_or(0, |at| at + 1);
                let is_indent = (begin > 0 || self.line_begins) && text[begin..].chars().all(is_space);
                if is_indent { &text[..begin] } else { text }
            }
            _ => text,
        };
        let len = kept.len();
        let kept = self.take(len);
        self.text(kept);
        self.take(at + 2 + usize::from(matches!(sign, Some(b'-' | b'+'))) - len);
        self.line_begins = false;
    }

    /// Handles what follows a block or a comment, of which `len` bytes are left.
    fn end_of_tag(&mut self, sign: Option<char>, len: usize) {
        self.take(len);
        let more = match sign {
            Some('-') => spaces(self.rest),
            Some('+') => 0,
            _ => usize::from(self.dialect.trims_blocks() && self.rest.starts_with('\n')),
        };
        self.line_begins = self.take(more).ends_with('\n');
    }

    /// Text up to `{% endraw %}`.
    fn raw(&mut self) -> Result<()> {
        let mut from = 0;
        loop {
            let at = self.rest[from..].find("{%").ok_or_else(|| Error::new("`raw` has no `endraw`"))? + from;
            let begin = at + 2 + usize::from(matches!(self.rest.as_bytes().get(at + 2), Some(b'-' | b'+')));
            if let Some((len, sign)) = word_tag(&self.rest[begin..], "endraw") {
                self.text_before_tag(at, b'%');
                self.end_of_tag(sign, len);
                return Ok(());
            }
            from = at + 2;
        }
    }

    /// Reads the tokens of a tag, up to its end outside of brackets.
    fn inside(&mut self, end: &str, kind: Kind) -> Result<()> {
        let mut brackets: Vec<&str> = Vec::new();
        loop {
            self.take(spaces(self.rest));
            if self.rest.is_empty() {
                return Ok(());
            }
            let sign = self
                .rest
                .chars()
                .next()
                .filter(|sign| (*sign == '-' || *sign == '+' && end == "%}") && self.rest[1..].starts_with(end));
            if brackets.is_empty() && (sign.is_some() || self.rest.starts_with(end)) {
                self.push(kind.clone());
                let len = end.len() + usize::from(sign.is_some());
                if kind == Kind::BlockEnd {
                    self.end_of_tag(sign, len);
                } else {
                    let len = len + if sign.is_some() { spaces(&self.rest[len..]) } else { 0 };
                    self.line_begins = self.take(len).ends_with('\n');
                }
                return Ok(());
            }
            let (token, len) = self.token()?;
            match token {
                Kind::Operator(open @ ("(" | "[" | "{")) => brackets.push(open),
                Kind::Operator(close @ (")" | "]" | "}")) => match (brackets.pop(), close) {
                    (Some("("), ")") | (Some("["), "]") | (Some("{"), "}") => {}
                    _ => return Err(Error::new(format!("unexpected `{close}`"))),
                },
                _ => {}
            }
            self.push(token);
            self.take(len);
        }
    }

    fn token(&self) -> Result<(Kind, usize)> {
        let rest = self.rest;
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_ascii_digit() {
            // After a dot it is an index, as in `a.0.1`.
            let after_dot = matches!(self.tokens.last(), Some(Token { kind: Kind::Operator("."), .. }));
            return number(rest, after_dot);
        }
        if first == '\'' || first == '"' {
            let (text, len) = string(rest)?;
            return Ok((Kind::String(text.into()), len));
        }
        if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            return Ok((Kind::Name(rest[..len].into()), len));
        }
        match OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            Some(operator) => Ok((Kind::Operator(operator), operator.len())),
            None => Err(Error::new(format!("unexpected character {first:?}"))),
        }
    }
}

/// The position of the next tag.
fn tag(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).position(|pair| matches!(pair, b"{{" | b"{%" | b"{#"))
}

fn spaces(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_space).len()
}

/// The length of a one-word tag after its opening, and its closing whitespace sign.
fn word_tag(text: &str, word: &str) -> Option<(usize, Option<char>)> {
    let after = text.trim_start_matches(is_space).strip_prefix(word)?.trim_start_matches(is_space);
    let (after, sign) = match after.strip_prefix(['-', '+']) {
        Some(rest) => (rest, after.chars().next()),
        None => (after, None),
    };
    let rest = after.strip_prefix("%}")?;
    Some((text.len() - rest.len(), sign))
}
