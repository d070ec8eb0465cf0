//! Expressions.

use std::collections::BTreeSet;

use num_rational::BigRational;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Number {
        value: BigRational,
        /// Whether it was written with a decimal point, so that it may be rounded.
        is_decimal: bool,
    },
    /// A letter or a Greek letter, with its index, its primes and an argument of 0: `x`, `x_1`, `f'(0)`.
    Symbol(String),
    /// A numeral with its base, which only tells it from numerals with another base.
    InBase(Box<Expr>, String),
    Pi,
    Euler,
    Infinity,
    Negative(Box<Expr>),
    Sum(Vec<Expr>),
    Product(Vec<Expr>),
    Quotient(Box<Expr>, Box<Expr>),
    Power(Box<Expr>, Box<Expr>),
    /// Hundredths.
    Percent(Box<Expr>),
    Binomial(Box<Expr>, Box<Expr>),
    Call(Function, Box<Expr>),
}

/// A function of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Factorial,
    Sqrt,
    Exp,
    Ln,
    /// To base 10.
    Log,
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Floor,
    Ceil,
}

impl Function {
    /// The function of a LaTeX command.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "exp" => Self::Exp,
            "ln" => Self::Ln,
            "log" | "lg" => Self::Log,
            "sin" => Self::Sin,
            "cos" => Self::Cos,
            "tan" => Self::Tan,
            "cot" => Self::Cot,
            "sec" => Self::Sec,
            "csc" => Self::Csc,
            "arcsin" => Self::Arcsin,
            "arccos" => Self::Arccos,
            "arctan" => Self::Arctan,
            _ => return None,
        })
    }
}

impl Expr {
    /// The parts of an expression.
    fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Number { .. } | Self::Symbol(_) | Self::Pi | Self::Euler | Self::Infinity => Vec::new(),
            Self::Negative(a) | Self::Percent(a) | Self::Call(_, a) | Self::InBase(a, _) => vec![a],
            Self::Sum(parts) | Self::Product(parts) => parts.iter().collect(),
            Self::Quotient(a, b) | Self::Power(a, b) | Self::Binomial(a, b) => vec![a, b],
        }
    }

    /// Whether it has a number with a decimal point.
    pub(crate) fn has_decimal(&self) -> bool {
        match self {
            Self::Number { is_decimal, .. } => *is_decimal,
            other => other.parts().into_iter().any(Self::has_decimal),
        }
    }

    /// Adds the bases of its numerals.
    pub(crate) fn bases<'a>(&'a self, found: &mut BTreeSet<&'a str>) {
        if let Self::InBase(_, base) = self {
            found.insert(base);
        }
        self.parts().into_iter().for_each(|part| part.bases(found));
    }

    /// Adds its symbols.
    pub(crate) fn symbols<'a>(&'a self, found: &mut Vec<&'a str>) {
        match self {
            Self::Symbol(name) if !found.contains(&name.as_str()) => found.push(name),
            other => other.parts().into_iter().for_each(|part| part.symbols(found)),
        }
    }
}
