//! Whether two answers are the same.

use std::collections::BTreeSet;

use num_complex::Complex64;

use crate::answer::Answer;
use crate::evaluate::{exact, numeric, size};
use crate::expr::Expr;
use crate::round;

/// Random points at which expressions with symbols are compared.
const POINTS: usize = 12;
/// Points at which both must have values.
const FEWEST: usize = 3;
/// The relative difference of equal values that are not exact.
const NEAR: f64 = 1e-9;
/// The part of its terms of which a sum is that cancels out.
const CANCELLED: f64 = 1e-3;
/// Symbols of an expression.
const MOST_SYMBOLS: usize = 12;

/// Whether two answers are the same.
pub(crate) fn answers(wanted: &Answer, found: &Answer) -> bool {
    use Answer::{Bracketed, Equation, Matrix, Relation, Set, Text, Union};
    match (wanted, found) {
        // Letters of choices.
        (Answer::Expr(Expr::Symbol(a)), Answer::Expr(Expr::Symbol(b)))
            if a.len() == 1 && ("A".."K").contains(&a.as_str()) =>
        {
            a.eq_ignore_ascii_case(b)
        }
        (Answer::Expr(a), Answer::Expr(b)) => numbers(a, b),
        (Text(a), Text(b)) => texts(a, b),
        (Equation(a, b), Equation(c, d)) => equations((a, b), (c, d)),
        (Equation(_, right), other) | (other, Equation(_, right)) if !matches!(other, Set(_)) => answers(right, other),
        (Relation(a, signs), Relation(b, others)) => relations((a, signs), (b, others)),
        (Relation(a, signs), other) | (other, Relation(a, signs)) => {
            interval(a, signs).is_some_and(|interval| answers(&interval, other))
        }
        (Set(a), Set(b)) | (Union(a), Union(b)) => same_members(a, b),
        // One member is as good as a set of it.
        (Set(one), other) | (other, Set(one)) if one.len() == 1 => answers(&one[0], other),
        // A reference without an order allows each.
        (Set(a), Bracketed('(', b, _)) => same_members(a, b),
        (Bracketed('(', a, _), Set(b)) => in_order(a, b),
        // Brackets tell intervals from others; three numbers are none.
        (Bracketed(open, a, close), Bracketed(other, b, end)) => {
            (a.len() > 2 || open == other && close == end) && in_order(a, b)
        }
        (Matrix(a), Matrix(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| in_order(a, b)),
        _ => false,
    }
}

fn in_order(a: &[Answer], b: &[Answer]) -> bool {
    let value = |part: &Answer| match part {
        Answer::Equation(_, right) => (**right).clone(),
        other => other.clone(),
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| answers(&value(a), &value(b)))
}

/// Whether each member of a set is in the other one.
fn same_members(a: &[Answer], b: &[Answer]) -> bool {
    // Each is compared with many, and so evaluated once.
    let evaluated = |part: &Answer| match part {
        Answer::Expr(expr @ (Expr::Product(_) | Expr::Power(..) | Expr::Quotient(..))) if bases(expr).is_empty() => {
            let number = exact(expr).map(|value| Expr::Number { value, is_decimal: expr.has_decimal() });
            Answer::Expr(number.unwrap_or_else(|| expr.clone()))
        }
        other => other.clone(),
    };
    let [a, b] = [a, b].map(|parts| parts.iter().map(evaluated).collect::<Vec<_>>());
    let all_in = |a: &[Answer], b: &[Answer]| a.iter().all(|one| b.iter().any(|other| answers(one, other)));
    all_in(&a, &b) && all_in(&b, &a)
}

/// Whether two texts are the same but for case, brackets around them, and what LaTeX writes around texts.
pub(crate) fn texts(a: &str, b: &str) -> bool {
    let plain = |text: &str| -> String {
        let mut text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        for command in ["\\text", "\\textbf", "\\mathrm", "\\mathbf", "\\dfrac", "\\tfrac"] {
            let kept = if command.ends_with("frac") { "\\frac" } else { "" };
            text = text.replace(&format!("{command}{{"), &format!("{kept}{{")).replace(&format!("{command}("), "(");
        }
        let text = without_command(&without_command(&text, "\\left"), "\\right");
        let kept = text.chars().filter(|c| !"{}$".contains(*c));
        let text: String = kept.flat_map(char::to_lowercase).collect();
        let text = text.trim_end_matches('.');
        text.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(text).to_owned()
    };
    let (a, b) = (plain(a), plain(b));
    !a.is_empty() && a == b
}

/// A text without a command, but with those whose names only begin like it: `\left(`, and not `\leftarrow`.
fn without_command(text: &str, command: &str) -> String {
    let mut parts = text.split(command);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| {
        let is_longer = part.starts_with(|c: char| c.is_ascii_alphabetic());
        kept + if is_longer { command } else { "" } + part
    })
}

fn equations((a, b): (&Answer, &Answer), (c, d): (&Answer, &Answer)) -> bool {
    if answers(a, c) && answers(b, d) || answers(a, d) && answers(b, c) {
        return true;
    }
    let (Answer::Expr(a), Answer::Expr(b), Answer::Expr(c), Answer::Expr(d)) = (a, b, c, d) else { return false };
    // Numbers that are small beside their symbol vanish in the ratio below.
    let is_number = |expr: &Expr| {
        let mut symbols = Vec::new();
        expr.symbols(&mut symbols);
        symbols.is_empty()
    };
    if a == c && matches!(a, Expr::Symbol(_)) && is_number(b) && is_number(d) {
        return false;
    }
    let difference = |a: &Expr, b: &Expr| Expr::Sum(vec![a.clone(), Expr::Negative(Box::new(b.clone()))]);
    let (first, second) = (difference(a, b), difference(c, d));
    let mut symbols = Vec::new();
    first.symbols(&mut symbols);
    // What is 7·2 = 14 says nothing but its value.
    if symbols.is_empty() {
        return answers(&Answer::Expr(b.clone()), &Answer::Expr(d.clone()));
    }
    let ratio = Expr::Quotient(Box::new(first), Box::new(second));
    constant(&ratio)
}

/// Whether an expression has the same value, which is not 0, at all points.
fn constant(expr: &Expr) -> bool {
    let mut symbols = Vec::new();
    expr.symbols(&mut symbols);
    let values: Vec<Complex64> = points(&symbols).filter_map(|point| numeric(expr, &point)).collect();
    let Some(first) = values.first() else { return false };
    values.len() >= FEWEST && first.norm() > NEAR && values.iter().all(|value| near(*first, *value, 1.0))
}

fn relations((a, signs): (&[Expr], &[char]), (b, others): (&[Expr], &[char])) -> bool {
    let same = |b: &[&Expr], others: &[char]| {
        signs == others && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| numbers(a, b))
    };
    let flipped: Vec<char> = others.iter().rev().map(|sign| flip(*sign)).collect();
    same(&b.iter().collect::<Vec<_>>(), others) || same(&b.iter().rev().collect::<Vec<_>>(), &flipped)
}

fn flip(sign: char) -> char {
    match sign {
        '<' => '>',
        '>' => '<',
        '≤' => '≥',
        '≥' => '≤',
        other => other,
    }
}

/// The interval of a symbol that is between numbers, or above or below one.
fn interval(sides: &[Expr], signs: &[char]) -> Option<Answer> {
    let infinity = |sign: char| if sign == '+' { Expr::Infinity } else { Expr::Negative(Box::new(Expr::Infinity)) };
    let made = |open: char, low: &Expr, high: &Expr, close: char| {
        Some(Answer::Bracketed(open, vec![Answer::Expr(low.clone()), Answer::Expr(high.clone())], close))
    };
    let (opens, closes) =
        (|sign: char| if sign == '<' { '(' } else { '[' }, |sign: char| if sign == '<' { ')' } else { ']' });
    match (sides, signs) {
        ([low, Expr::Symbol(_), high], [a @ ('<' | '≤'), b @ ('<' | '≤')]) => {
            made(opens(*a), low, high, closes(*b))
        }
        ([high, Expr::Symbol(_), low], [a @ ('>' | '≥'), b @ ('>' | '≥')]) => {
            made(opens(flip(*b)), low, high, closes(flip(*a)))
        }
        ([Expr::Symbol(_), high], [sign @ ('<' | '≤')]) => made('(', &infinity('-'), high, closes(*sign)),
        ([Expr::Symbol(_), low], [sign @ ('>' | '≥')]) => made(opens(flip(*sign)), low, &infinity('+'), ')'),
        ([low, Expr::Symbol(_)], [sign @ ('<' | '≤')]) => made(opens(*sign), low, &infinity('+'), ')'),
        ([high, Expr::Symbol(_)], [sign @ ('>' | '≥')]) => made('(', &infinity('-'), high, closes(flip(*sign))),
        _ => None,
    }
}

/// The bases of its numerals.
fn bases(expr: &Expr) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    expr.bases(&mut found);
    found
}

/// Whether two expressions have the same value, and per cent of it where one is written so.
fn numbers(a: &Expr, b: &Expr) -> bool {
    // A numeral without a base is as good as one with it.
    let bases = [a, b].map(bases);
    if bases[0] != bases[1] && bases.iter().all(|bases| !bases.is_empty()) {
        return false;
    }
    if same_value(a, b) {
        return true;
    }
    match (a, b) {
        (Expr::Percent(a), b) | (b, Expr::Percent(a)) => same_value(a, b),
        (Expr::Negative(a), b) | (b, Expr::Negative(a)) => match &**a {
            Expr::Percent(a) => same_value(&Expr::Negative(a.clone()), b),
            _ => false,
        },
        _ => false,
    }
}

fn same_value(a: &Expr, b: &Expr) -> bool {
    if a == b {
        return true;
    }
    let mut symbols = Vec::new();
    a.symbols(&mut symbols);
    b.symbols(&mut symbols);
    let is_rounded = a.has_decimal() || b.has_decimal();
    if symbols.is_empty() || symbols == ["i"] {
        if let (Some(a), Some(b)) = (exact(a), exact(b)) {
            return a == b || is_rounded && round::same(&a, &b);
        }
        let unit = [("i", Complex64::i())];
        let (Some(x), Some(y)) = (numeric(a, &unit), numeric(b, &unit)) else { return false };
        return near(x, y, size(a, &unit).max(size(b, &unit))) || is_rounded && round::same_complex(x, y);
    }
    if symbols.len() > MOST_SYMBOLS {
        return false;
    }
    let mut compared = 0;
    for point in points(&symbols) {
        match (numeric(a, &point), numeric(b, &point)) {
            (Some(x), Some(y)) if near(x, y, size(a, &point).max(size(b, &point))) => compared += 1,
            (None, None) => {}
            _ => return false,
        }
    }
    compared >= FEWEST
}

/// Whether two values of expressions whose terms are of some size are the same.
fn near(a: Complex64, b: Complex64, size: f64) -> bool {
    (a - b).norm() <= NEAR * a.norm().max(b.norm()).max(CANCELLED * size.min(1.0))
}

/// Real values of symbols, of both signs, the same in every call.
fn points<'a>(symbols: &'a [&'a str]) -> impl Iterator<Item = Vec<(&'a str, Complex64)>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        0.2 + 2.6 * ((state >> 11) as f64 / (1_u64 << 53) as f64)
    };
    (0..POINTS).map(move |number| {
        let mut value = || Complex64::new(if number % 2 == 0 { random() } else { -random() }, 0.0);
        symbols.iter().map(|name| (*name, value())).collect()
    })
}
