//! Tokens of LaTeX and of plain formulas.

use crate::number;

/// A token. Spaces, `$`, `\left` and the like are none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// As `number::read` writes it.
    Number(String),
    Letter(char),
    /// Several letters that are no product, or a `\text{}`.
    Word(String),
    /// A LaTeX command without its backslash, or a known name such as `sin`.
    Command(String),
    /// `(`, `[`, or `{` of a set.
    Open(char),
    Close(char),
    GroupOpen,
    GroupClose,
    /// An operator or a separator.
    Op(char),
}

/// Names that are functions or constants without a backslash too.
const NAMES: [&str; 14] =
    ["sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt", "pi", "infinity", "oo", "lg"];
/// Short words that are units and not products of letters.
const UNITS: [&str; 26] = [
    "cm", "mm", "km", "dm", "kg", "mg", "ml", "ft", "mi", "lb", "lbs", "oz", "hr", "hrs", "min", "sec", "mph", "kmh",
    "deg", "rad", "usd", "eur", "m", "g", "s", "h",
];
/// Commands whose argument is text.
const TEXTS: [&str; 9] = ["text", "textbf", "textit", "textrm", "mathrm", "mbox", "mathbf", "operatorname", "emph"];
/// Commands that are left out.
const SILENT: [&str; 19] = [
    "left",
    "right",
    "big",
    "Big",
    "bigg",
    "Bigg",
    "bigl",
    "bigr",
    "displaystyle",
    "textstyle",
    "quad",
    "qquad",
    "limits",
    "circ",
    "degree",
    "dots",
    "ldots",
    "cdots",
    "boxed",
];

/// Where a lexer is.
struct Lexer {
    chars: Vec<char>,
    at: usize,
    /// Open brackets, in which a comma separates.
    depth: usize,
    tokens: Vec<Token>,
}

/// The tokens of a text.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, depth: 0, tokens: Vec::new() };
    while lexer.step() {}
    lexer.tokens
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn push(&mut self, token: Token) {
        match token {
            Token::Open(_) => self.depth += 1,
            Token::Close(_) => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.tokens.push(token);
    }

    fn step(&mut self) -> bool {
        let Some(c) = self.peek(0) else { return false };
        if number::starts(&self.chars[self.at..]) {
            let (number, length) = number::read(&self.chars[self.at..], self.depth);
            self.at += length;
            self.push(Token::Number(number));
            return true;
        }
        if c.is_ascii_alphabetic() {
            self.word();
            return true;
        }
        self.at += 1;
        match c {
            '\\' => self.command(),
            '{' => self.push(Token::GroupOpen),
            '}' => self.push(Token::GroupClose),
            '(' | '[' => self.push(Token::Open(c)),
            ')' | ']' => self.push(Token::Close(c)),
            '−' | '–' => self.push(Token::Op('-')),
            '×' | '·' | '⋅' => self.push(Token::Op('*')),
            '÷' => self.push(Token::Op('/')),
            'π' => self.push(Token::Command("pi".into())),
            '∞' => self.push(Token::Command("infty".into())),
            '√' => self.push(Token::Command("sqrt".into())),
            '⌊' => self.push(Token::Command("lfloor".into())),
            '⌋' => self.push(Token::Command("rfloor".into())),
            '⌈' => self.push(Token::Command("lceil".into())),
            '⌉' => self.push(Token::Command("rceil".into())),
            // A prime belongs to a name; `30'` is a unit.
            '\'' | '’' | '′' if matches!(self.tokens.last(), Some(Token::Letter(_) | Token::Op('\''))) => {
                self.push(Token::Op('\''));
            }
            '²' | '³' => {
                self.push(Token::Op('^'));
                self.push(Token::Number(if c == '²' { "2" } else { "3" }.into()));
            }
            '*' if self.peek(0) == Some('*') => {
                self.at += 1;
                self.push(Token::Op('^'));
            }
            '<' | '>' if self.peek(0) == Some('=') => {
                self.at += 1;
                self.push(Token::Op(if c == '<' { '≤' } else { '≥' }));
            }
            '+' | '-' | '*' | '/' | '^' | '_' | '=' | '<' | '>' | '≤' | '≥' | '≠' | '±' | '!' | '%' | ':' | ','
            | ';' | '&' | '|' | '∪' | '∈' => self.push(Token::Op(c)),
            // Spaces, `$`, a point at the end, degrees, and what is no mathematics.
            _ => {}
        }
        true
    }

    fn word(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c.is_ascii_alphabetic()) {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        match word.as_str() {
            "and" | "or" => self.push(Token::Op(',')),
            name if NAMES.contains(&name) => self.push(Token::Command(word)),
            unit if word.len() > 3 || word.len() > 1 && UNITS.contains(&unit.to_ascii_lowercase().as_str()) => {
                self.push(Token::Word(word));
            }
            _ => word.chars().for_each(|letter| self.push(Token::Letter(letter))),
        }
    }

    fn command(&mut self) {
        let Some(c) = self.peek(0) else { return };
        if !c.is_ascii_alphabetic() {
            self.at += 1;
            return match c {
                '{' => self.push(Token::Open('{')),
                '}' => self.push(Token::Close('}')),
                '%' => self.push(Token::Op('%')),
                '|' => self.push(Token::Op('|')),
                '\\' => self.push(Token::Command("\\".into())),
                _ => {}
            };
        }
        let start = self.at;
        while self.peek(0).is_some_and(|c| c.is_ascii_alphabetic()) {
            self.at += 1;
        }
        let name: String = self.chars[start..self.at].iter().collect();
        let op = match name.as_str() {
            "cdot" | "times" | "ast" => '*',
            "div" => '/',
            "pm" | "mp" => '±',
            "le" | "leq" | "leqslant" => '≤',
            "ge" | "geq" | "geqslant" => '≥',
            "lt" => '<',
            "gt" => '>',
            "ne" | "neq" => '≠',
            "approx" | "equiv" | "sim" => '=',
            "in" => '∈',
            "cup" => '∪',
            "lbrace" => return self.push(Token::Open('{')),
            "rbrace" => return self.push(Token::Close('}')),
            "lvert" | "rvert" | "vert" | "mid" => '|',
            text if TEXTS.contains(&text) => return self.text(),
            "begin" | "end" => {
                let kind = self.group();
                return self.push(Token::Command(format!("{name}:{kind}")));
            }
            "dfrac" | "tfrac" | "cfrac" => return self.push(Token::Command("frac".into())),
            silent if SILENT.contains(&silent) => return,
            _ => return self.push(Token::Command(name)),
        };
        self.push(Token::Op(op));
    }

    /// The argument of a command that shows text.
    fn text(&mut self) {
        let text = self.group();
        match text.trim() {
            "and" | "or" | "," => self.push(Token::Op(',')),
            "" => {}
            name if NAMES.contains(&name) => self.push(Token::Command(name.to_owned())),
            text => self.push(Token::Word(text.to_owned())),
        }
    }

    /// The text of the group that follows.
    fn group(&mut self) -> String {
        while self.peek(0) == Some(' ') {
            self.at += 1;
        }
        if self.peek(0) != Some('{') {
            return String::new();
        }
        let start = self.at + 1;
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => return self.chars[start..self.at - 1].iter().collect(),
                '}' => depth -= 1,
                _ => {}
            }
        }
        self.chars[start..].iter().collect()
    }
}
