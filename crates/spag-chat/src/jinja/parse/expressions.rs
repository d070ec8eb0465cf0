//! Expressions, with the precedence of Jinja's operators.

use super::Parser;
use super::lexer::Kind;
use crate::jinja::ast::{Binary, Comparison, Expr};
use crate::jinja::error::Result;

/// Operators from the weakest to the strongest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Concat,
    Product,
    Power,
}

impl Parser<'_> {
    /// An expression, or several separated by commas, which form a tuple.
    pub(super) fn tuple(&mut self) -> Result<Expr> {
        self.tuple_of(Self::expression)
    }

    /// As [`Parser::tuple`], but ends at `if`.
    pub(super) fn tuple_without_condition(&mut self) -> Result<Expr> {
        self.tuple_of(|parser| parser.binary(Strength::Or))
    }

    fn tuple_of(&mut self, each: impl Fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let first = each(self)?;
        if !self.is_operator(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip_operator(",") && !self.ends_tuple() {
            items.push(each(self)?);
        }
        Ok(Expr::Tuple(items))
    }

    fn ends_tuple(&self) -> bool {
        let is_end = matches!(self.peek(), Kind::VariableEnd | Kind::BlockEnd | Kind::End);
        is_end || self.is_operator(")") || self.is_operator("]") || self.is_word("recursive")
    }

    pub(super) fn expression(&mut self) -> Result<Expr> {
        let _level = self.enter()?;
        let mut expr = self.binary(Strength::Or)?;
        // Each condition nests the preceding expression.
        let mut levels = Vec::new();
        while self.skip_word("if") {
            levels.push(self.enter()?);
            let condition = self.binary(Strength::Or)?;
            let otherwise = if self.skip_word("else") { Some(self.expression()?) } else { None };
            expr = Expr::If(Box::new((expr, condition, otherwise)));
        }
        Ok(expr)
    }

    fn binary(&mut self, strength: Strength) -> Result<Expr> {
        match strength {
            Strength::Or => self.several(Strength::And, |parser| parser.skip_word("or"), Expr::Or),
            Strength::And => self.several(Strength::Not, |parser| parser.skip_word("and"), Expr::And),
            Strength::Not => {
                let _level = self.enter()?;
                if self.skip_word("not") {
                    return Ok(Expr::Not(Box::new(self.binary(Strength::Not)?)));
                }
                self.binary(Strength::Comparison)
            }
            Strength::Comparison => self.comparison(),
            Strength::Sum => self.chain(Strength::Concat, &[("+", Binary::Add), ("-", Binary::Subtract)]),
            Strength::Concat => self.several(Strength::Product, |parser| parser.skip_operator("~"), Expr::Concat),
            Strength::Product => self.chain(
                Strength::Power,
                &[
                    ("*", Binary::Multiply),
                    ("/", Binary::Divide),
                    ("//", Binary::FloorDivide),
                    ("%", Binary::Remainder),
                ],
            ),
            Strength::Power => {
                let first = self.unary(Filters::Taken)?;
                let mut more = Vec::new();
                while self.skip_operator("**") {
                    more.push((Binary::Power, self.unary(Filters::Taken)?));
                }
                Ok(if more.is_empty() { first } else { Expr::Chain(Box::new(first), more) })
            }
        }
    }

    fn several(
        &mut self,
        next: Strength,
        skip: impl Fn(&mut Self) -> bool,
        made: fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr> {
        let first = self.binary(next)?;
        if !skip(self) {
            return Ok(first);
        }
        let mut all = vec![first, self.binary(next)?];
        while skip(self) {
            all.push(self.binary(next)?);
        }
        Ok(made(all))
    }

    fn chain(&mut self, next: Strength, operators: &[(&str, Binary)]) -> Result<Expr> {
        let first = self.binary(next)?;
        let mut more = Vec::new();
        while let Some((_, operator)) = operators.iter().find(|(text, _)| self.is_operator(text)) {
            self.at += 1;
            more.push((*operator, self.binary(next)?));
        }
        Ok(if more.is_empty() { first } else { Expr::Chain(Box::new(first), more) })
    }

    fn comparison(&mut self) -> Result<Expr> {
        let first = self.binary(Strength::Sum)?;
        let mut more = Vec::new();
        while let Some(operator) = self.compared() {
            more.push((operator, self.binary(Strength::Sum)?));
        }
        Ok(if more.is_empty() { first } else { Expr::Compare(Box::new(first), more) })
    }

    fn compared(&mut self) -> Option<Comparison> {
        let operator = match self.peek() {
            Kind::Operator("==") => Comparison::Equal,
            Kind::Operator("!=") => Comparison::Unequal,
            Kind::Operator("<") => Comparison::Less,
            Kind::Operator("<=") => Comparison::LessEqual,
            Kind::Operator(">") => Comparison::Greater,
            Kind::Operator(">=") => Comparison::GreaterEqual,
            Kind::Name(name) if **name == *"in" => Comparison::In,
            Kind::Name(name) if **name == *"not" => {
                let is_in = |kind: &Kind| matches!(kind, Kind::Name(name) if **name == *"in");
                self.tokens.get(self.at + 1).filter(|next| is_in(&next.kind))?;
                self.at += 1;
                Comparison::NotIn
            }
            _ => return None,
        };
        self.at += 1;
        Some(operator)
    }

    fn unary(&mut self, filters: Filters) -> Result<Expr> {
        let _level = self.enter()?;
        let expr = if self.skip_operator("-") {
            Expr::Negative(Box::new(self.unary(Filters::Left)?))
        } else if self.skip_operator("+") {
            Expr::Positive(Box::new(self.unary(Filters::Left)?))
        } else {
            self.primary()?
        };
        let mut all = Vec::new();
        self.postfix(&mut all)?;
        if filters == Filters::Taken {
            self.filters(&mut all)?;
        }
        Ok(if all.is_empty() { expr } else { Expr::Postfix(Box::new(expr), all) })
    }

    pub(super) fn primary(&mut self) -> Result<Expr> {
        Ok(match self.peek().clone() {
            Kind::Name(name) => {
                self.at += 1;
                match &*name {
                    "true" | "True" => Expr::Bool(true),
                    "false" | "False" => Expr::Bool(false),
                    "none" | "None" => Expr::None,
                    _ => {
                        self.uses.varargs |= *name == *"varargs";
                        self.uses.kwargs |= *name == *"kwargs";
                        self.uses.caller |= *name == *"caller";
                        Expr::Name(name)
                    }
                }
            }
            Kind::String(first) => {
                self.at += 1;
                let mut text = first.to_string();
                while let Kind::String(more) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Expr::Text(text.into())
            }
            Kind::Int(value) => {
                self.at += 1;
                Expr::Int(value)
            }
            Kind::Float(value) => {
                self.at += 1;
                Expr::Float(value)
            }
            Kind::Operator("(") => {
                self.at += 1;
                let expr = if self.is_operator(")") { Expr::Tuple(Vec::new()) } else { self.tuple()? };
                self.expect(")")?;
                expr
            }
            Kind::Operator("[") => {
                self.at += 1;
                Expr::List(self.listed("]", Self::expression)?)
            }
            Kind::Operator("{") => {
                self.at += 1;
                let pair = |parser: &mut Self| {
                    let key = parser.expression()?;
                    parser.expect(":")?;
                    Ok((key, parser.expression()?))
                };
                Expr::Dict(self.listed("}", pair)?)
            }
            _ => return self.unexpected("a value"),
        })
    }

    /// Comma-separated items up to a closing bracket.
    fn listed<T>(&mut self, end: &str, each: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_operator(end) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.is_operator(end) {
                    break;
                }
            }
            items.push(each(self)?);
        }
        self.expect(end)?;
        Ok(items)
    }
}

/// Whether filters apply to an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filters {
    Taken,
    Left,
}
