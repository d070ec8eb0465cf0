//! Tokens to expressions.

use num_rational::BigRational;

use crate::expr::{Expr, Function};
use crate::name;
use crate::number;
use crate::token::Token;

/// Parts within parts.
const DEEPEST: usize = 60;

/// The expression of some tokens; `None` if they are none.
pub(crate) fn expression(tokens: &[Token]) -> Option<Expr> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let expr = parser.sum()?;
    (parser.at == tokens.len()).then_some(expr)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

/// The only part, or what they make together.
fn one_or(mut parts: Vec<Expr>, together: fn(Vec<Expr>) -> Expr) -> Expr {
    if parts.len() == 1 { parts.remove(0) } else { together(parts) }
}

fn integer(value: i64) -> Expr {
    Expr::Number { value: BigRational::from_integer(value.into()), is_decimal: false }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn takes_op(&mut self, ops: &[char]) -> Option<char> {
        match self.peek() {
            Some(Token::Op(op)) if ops.contains(op) => {
                self.at += 1;
                Some(*op)
            }
            _ => None,
        }
    }

    fn sum(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut terms = vec![self.product()?];
        while let Some(op) = self.takes_op(&['+', '-']) {
            let term = self.product()?;
            terms.push(if op == '-' { Expr::Negative(boxed(term)) } else { term });
        }
        self.depth -= 1;
        Some(one_or(terms, Expr::Sum))
    }

    fn product(&mut self) -> Option<Expr> {
        let mut factors = vec![self.signed()?];
        let mut divisions = 0;
        loop {
            if let Some(op) = self.takes_op(&['*', '/', ':']) {
                let factor = self.signed()?;
                if op == '*' {
                    factors.push(factor);
                    continue;
                }
                divisions += 1;
                if divisions > DEEPEST {
                    return None;
                }
                let over = one_or(std::mem::take(&mut factors), Expr::Product);
                factors.push(Expr::Quotient(boxed(over), boxed(factor)));
            } else if self.begins_factor() || factors.last().is_some_and(|last| self.is_numeral_after_bracket(last)) {
                let is_whole = matches!(factors[..], [Expr::Number { is_decimal: false, .. }]);
                let is_mixed = is_whole && self.is_proper_fraction();
                factors.push(self.power()?);
                if is_mixed {
                    factors = vec![Expr::Sum(factors)];
                }
            } else {
                return Some(one_or(factors, Expr::Product));
            }
        }
    }

    /// Whether a factor follows without a sign of multiplication.
    fn begins_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Letter(_) | Token::Open('(' | '[') | Token::GroupOpen) => true,
            Some(Token::Command(name)) => {
                !name.starts_with("end:") && !["\\", "rfloor", "rceil"].contains(&name.as_str())
            }
            // Two numbers side by side are none.
            _ => false,
        }
    }

    /// Whether a numeral follows a bracket, as in `(n-2) 2^n`. Not after `(2)` or `(a)`, which may number what follows.
    fn is_numeral_after_bracket(&self, last: &Expr) -> bool {
        let mut symbols = Vec::new();
        last.symbols(&mut symbols);
        let is_bracket = matches!(self.tokens[..self.at], [.., Token::Close(_)]);
        is_bracket
            && matches!(self.peek(), Some(Token::Number(_)))
            && !symbols.is_empty()
            && !matches!(last, Expr::Symbol(_))
    }

    /// Whether `\frac{a}{b}` of two whole numbers follows, as in a mixed number.
    fn is_proper_fraction(&self) -> bool {
        let whole = |token: Option<&Token>| match token {
            Some(Token::Number(text)) => text.parse::<u64>().ok(),
            _ => None,
        };
        let rest = &self.tokens[self.at..];
        let found = match rest {
            [
                Token::Command(name),
                Token::GroupOpen,
                a,
                Token::GroupClose,
                Token::GroupOpen,
                b,
                Token::GroupClose,
                ..,
            ] if name == "frac" => whole(Some(a)).zip(whole(Some(b))),
            [Token::Command(name), Token::Number(digits), ..] if name == "frac" && digits.len() == 2 => {
                whole(Some(&Token::Number(digits[..1].into()))).zip(whole(Some(&Token::Number(digits[1..].into()))))
            }
            _ => None,
        };
        found.is_some_and(|(a, b)| a < b)
    }

    fn signed(&mut self) -> Option<Expr> {
        match self.takes_op(&['+', '-']) {
            Some(op) => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return None;
                }
                let inner = self.signed()?;
                self.depth -= 1;
                Some(if op == '-' { Expr::Negative(boxed(inner)) } else { inner })
            }
            None => self.power(),
        }
    }

    fn power(&mut self) -> Option<Expr> {
        let base = self.postfix()?;
        if self.takes_op(&['^']).is_none() {
            return Some(base);
        }
        // `^\circ` is no power, and its command is no token.
        if self.begins_exponent() {
            let exponent = self.exponent()?;
            let power = Expr::Power(boxed(base), boxed(exponent));
            return self.after(power);
        }
        if self.takes(&Token::GroupOpen) {
            self.takes(&Token::GroupClose);
        }
        self.after(base)
    }

    fn begins_exponent(&self) -> bool {
        match self.tokens[self.at..] {
            [Token::GroupOpen, Token::GroupClose, ..] | [] => false,
            [Token::GroupOpen, ..] => true,
            [ref token, ..] => {
                matches!(
                    token,
                    Token::Number(_) | Token::Letter(_) | Token::Command(_) | Token::Open('(') | Token::Op('-')
                )
            }
        }
    }

    /// An exponent, whose own exponent binds it first.
    fn exponent(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let expr = match self.takes_op(&['-']) {
            Some(_) => Expr::Negative(boxed(self.primary()?)),
            None => self.primary()?,
        };
        self.depth -= 1;
        Some(expr)
    }

    fn postfix(&mut self) -> Option<Expr> {
        let expr = self.primary()?;
        self.after(expr)
    }

    /// What may follow an expression: `!`, `%`, an index, a prime, or the argument 0 of a name.
    fn after(&mut self, mut expr: Expr) -> Option<Expr> {
        for _ in 0..DEEPEST {
            if let Expr::Symbol(name) = &expr
                && name::is_applied_to_zero(&self.tokens[..self.at], &self.tokens[self.at..])
            {
                expr = Expr::Symbol(format!("{name}(0)"));
                self.at += 3;
            }
            expr = match self.takes_op(&['!', '%', '_', '\'']) {
                Some('!') => Expr::Call(Function::Factorial, boxed(expr)),
                Some('%') => Expr::Percent(boxed(expr)),
                Some('_') => {
                    let (index, length) = name::index(&self.tokens[self.at..])?;
                    self.at += length;
                    name::indexed(expr, &index)
                }
                Some(_) => match expr {
                    Expr::Symbol(name) => Expr::Symbol(format!("{name}'")),
                    other => other,
                },
                None => return Some(expr),
            };
        }
        None
    }

    fn primary(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let token = self.peek()?;
        self.at += 1;
        let expr = match token {
            Token::Number(text) => number::value(text)?,
            Token::Letter('e') => Expr::Euler,
            Token::Letter(letter) => Expr::Symbol(letter.to_string()),
            Token::Word(_) | Token::Close(_) | Token::GroupClose | Token::Open('{') => return None,
            Token::Open(_) => {
                let inner = self.sum()?;
                if !matches!(self.peek(), Some(Token::Close(')' | ']'))) {
                    return None;
                }
                self.at += 1;
                inner
            }
            Token::GroupOpen => {
                let inner = self.sum()?;
                if !self.takes(&Token::GroupClose) {
                    return None;
                }
                inner
            }
            Token::Op('|') => {
                let inner = self.sum()?;
                self.takes_op(&['|'])?;
                Expr::Call(Function::Abs, boxed(inner))
            }
            Token::Op(_) => return None,
            Token::Command(name) => self.command(name)?,
        };
        self.depth -= 1;
        Some(expr)
    }

    fn command(&mut self, name: &str) -> Option<Expr> {
        Some(match name {
            "pi" => Expr::Pi,
            "infty" | "infinity" | "oo" => Expr::Infinity,
            "frac" => {
                if let Some(Token::Number(digits)) = self.peek()
                    && self.tokens.get(self.at + 1) != Some(&Token::GroupOpen)
                    && digits.len() == 2
                    && digits.chars().all(|c| c.is_ascii_digit())
                {
                    self.at += 1;
                    let [a, b] = [&digits[..1], &digits[1..]].map(number::value);
                    return Some(Expr::Quotient(boxed(a?), boxed(b?)));
                }
                let over = self.primary()?;
                Expr::Quotient(boxed(over), boxed(self.primary()?))
            }
            "binom" | "dbinom" | "tbinom" => {
                let over = self.primary()?;
                Expr::Binomial(boxed(over), boxed(self.primary()?))
            }
            "sqrt" => {
                let root = match self.takes(&Token::Open('[')) {
                    true => {
                        let root = self.sum()?;
                        if !self.takes(&Token::Close(']')) {
                            return None;
                        }
                        Some(root)
                    }
                    false => None,
                };
                let of = boxed(self.primary()?);
                match root {
                    Some(root) => Expr::Power(of, boxed(Expr::Quotient(boxed(integer(1)), boxed(root)))),
                    None => Expr::Call(Function::Sqrt, of),
                }
            }
            "lfloor" | "lceil" => {
                let (function, end) =
                    if name == "lfloor" { (Function::Floor, "rfloor") } else { (Function::Ceil, "rceil") };
                let inner = self.sum()?;
                if !self.takes(&Token::Command(end.into())) {
                    return None;
                }
                Expr::Call(function, boxed(inner))
            }
            name => match Function::named(name) {
                Some(function) => self.call(function)?,
                None if name.len() > 1 && name.chars().all(char::is_alphabetic) => Expr::Symbol(name.to_owned()),
                None => return None,
            },
        })
    }

    /// A function with its power (`\sin^2 x`), its base (`\log_2 x`) and its argument, which is a product without brackets.
    fn call(&mut self, function: Function) -> Option<Expr> {
        let base = match self.takes_op(&['_']) {
            Some(_) => Some(self.primary()?),
            None => None,
        };
        let power = match self.takes_op(&['^']) {
            Some(_) => Some(self.exponent()?),
            None => None,
        };
        let argument = match self.peek()? {
            Token::Open(_) | Token::GroupOpen => self.primary()?,
            _ => {
                let mut factors = vec![self.power()?];
                while matches!(self.peek(), Some(Token::Letter(_)) | Some(Token::Number(_)))
                    || matches!(self.peek(), Some(Token::Command(name)) if name == "pi")
                {
                    factors.push(self.power()?);
                }
                one_or(factors, Expr::Product)
            }
        };
        let called = match base {
            Some(base) => {
                let ln = |of| Expr::Call(Function::Ln, boxed(of));
                Expr::Quotient(boxed(ln(argument)), boxed(ln(base)))
            }
            None => Expr::Call(function, boxed(argument)),
        };
        Some(match power {
            Some(power) => Expr::Power(boxed(called), boxed(power)),
            None => called,
        })
    }
}
