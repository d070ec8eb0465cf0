//! Names of more than a letter: with an index, or with an argument of 0.

use crate::expr::Expr;
use crate::token::Token;

/// Bases that are written as words, from two on.
const BASES: [&str; 9] = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// The text of the index at the start, a token or a group, and how many tokens it has. `x_1` and `x_{1}` are one symbol.
pub(crate) fn index(tokens: &[Token]) -> Option<(String, usize)> {
    let length = match tokens.first()? {
        Token::Open(_) | Token::GroupOpen => group(tokens)?,
        _ => 1,
    };
    let inner = if length == 1 { &tokens[..1] } else { &tokens[1..length - 1] };
    Some((inner.iter().map(written).collect::<Option<_>>()?, length))
}

/// The number of tokens of the group at the start.
fn group(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    let is_end = |token: &Token| {
        match token {
            Token::Open(_) | Token::GroupOpen => depth += 1,
            Token::Close(_) | Token::GroupClose => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    };
    tokens.iter().position(is_end).map(|end| end + 1)
}

/// What a token adds to an index; `None` if it makes one that is no name, such as `k=1` below a sum.
fn written(token: &Token) -> Option<String> {
    Some(match token {
        Token::Number(text) => text.clone(),
        Token::Letter(letter) => letter.to_string(),
        Token::Word(text) => text.split_whitespace().collect(),
        Token::Command(name) => format!("\\{name}"),
        Token::Open(_) => "(".into(),
        Token::Close(_) => ")".into(),
        Token::GroupOpen => "{".into(),
        Token::GroupClose => "}".into(),
        Token::Op(op) if "+-*/,^_'".contains(*op) => op.to_string(),
        Token::Op(_) => return None,
    })
}

/// An expression with an index, which is a name or a numeral; others lose it.
pub(crate) fn indexed(expr: Expr, index: &str) -> Expr {
    match expr {
        expr if index.is_empty() => expr,
        Expr::Symbol(name) => Expr::Symbol(format!("{name}_{index}")),
        Expr::Euler => Expr::Symbol(format!("e_{index}")),
        Expr::Pi => Expr::Symbol(format!("pi_{index}")),
        Expr::Number { .. } => {
            let number = BASES.iter().position(|word| *word == index).map(|at| (at + 2).to_string());
            Expr::InBase(Box::new(expr), number.unwrap_or_else(|| index.to_owned()))
        }
        other => other,
    }
}

/// Whether a name is applied to 0, as in `I(0)`. As a product it would vanish, and equal every other such product.
pub(crate) fn is_applied_to_zero(before: &[Token], after: &[Token]) -> bool {
    let [Token::Open(_), Token::Number(zero), Token::Close(_), ..] = after else { return false };
    zero.chars().all(|c| c == '0') && !matches!(before, [.., Token::Close(_)])
}
