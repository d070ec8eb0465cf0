//! Operators after a value: attributes, items, calls, filters and tests.

use super::Parser;
use super::lexer::Kind;
use crate::jinja::ast::{Arguments, Expr, Postfix};
use crate::jinja::error::{Result, fail};

impl Parser<'_> {
    /// Attributes, items and calls.
    pub(super) fn postfix(&mut self, all: &mut Vec<Postfix>) -> Result<()> {
        loop {
            if self.skip_operator(".") {
                let attribute = match self.next() {
                    Kind::Name(name) => Postfix::Attribute(name),
                    Kind::Int(index) => Postfix::Item(Expr::Int(index)),
                    _ => return fail!("expected a name or a number after a dot"),
                };
                all.push(attribute);
            } else if self.skip_operator("[") {
                all.push(self.subscript()?);
            } else if self.is_operator("(") {
                all.push(Postfix::Call(self.arguments()?));
            } else {
                return Ok(());
            }
        }
    }

    fn subscript(&mut self) -> Result<Postfix> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        while !self.is_operator("]") {
            if self.skip_operator(":") {
                colons += 1;
                if colons > 2 {
                    return self.unexpected("`]`");
                }
            } else if parts[colons].is_none() {
                parts[colons] = Some(if colons == 0 { self.tuple()? } else { self.expression()? });
            } else {
                return self.unexpected("`]`");
            }
        }
        self.expect("]")?;
        match (colons, parts) {
            (0, [Some(item), ..]) => Ok(Postfix::Item(item)),
            (0, _) => fail!("expected an index within the brackets"),
            (_, parts) => Ok(Postfix::Slice(Box::new(parts))),
        }
    }

    /// Filters, tests and calls of their results.
    pub(super) fn filters(&mut self, all: &mut Vec<Postfix>) -> Result<()> {
        loop {
            if self.skip_operator("|") {
                self.filter(all)?;
            } else if self.skip_word("is") {
                self.test(all)?;
            } else if self.is_operator("(") {
                all.push(Postfix::Call(self.arguments()?));
            } else {
                return Ok(());
            }
        }
    }

    /// A filter, after its bar.
    pub(super) fn filter(&mut self, all: &mut Vec<Postfix>) -> Result<()> {
        let name = self.name()?;
        let arguments = if self.is_operator("(") { self.arguments()? } else { Arguments::default() };
        all.push(Postfix::Filter(name, arguments));
        Ok(())
    }

    fn test(&mut self, all: &mut Vec<Postfix>) -> Result<()> {
        let made = if self.skip_word("not") { Postfix::Untest } else { Postfix::Test };
        let name = self.name()?;
        if self.is_word("is") {
            return fail!("You cannot chain multiple tests with is");
        }
        let is_end = ["else", "or", "and", "not", "in", "if"].iter().any(|word| self.is_word(word));
        let arguments = match self.peek() {
            Kind::Operator("(") => self.arguments()?,
            Kind::Operator("[" | "{") | Kind::Name(_) | Kind::String(_) | Kind::Int(_) | Kind::Float(_) if !is_end => {
                let mut more = Vec::new();
                let value = self.primary()?;
                self.postfix(&mut more)?;
                Arguments { positional: vec![Expr::Postfix(Box::new(value), more)], ..Arguments::default() }
            }
            _ => Arguments::default(),
        };
        all.push(made(name, arguments));
        Ok(())
    }

    pub(super) fn arguments(&mut self) -> Result<Arguments> {
        self.expect("(")?;
        let mut arguments = Arguments::default();
        while !self.is_operator(")") {
            if self.skip_operator("*") {
                arguments.list = Some(Box::new(self.expression()?));
            } else if self.skip_operator("**") {
                arguments.dict = Some(Box::new(self.expression()?));
            } else if let (Kind::Name(name), Some(Kind::Operator("="))) =
                (self.peek().clone(), self.tokens.get(self.at + 1).map(|token| &token.kind))
            {
                self.at += 2;
                arguments.named.push((name, self.expression()?));
            } else if arguments.named.is_empty() && arguments.dict.is_none() {
                arguments.positional.push(self.expression()?);
            } else {
                return self.unexpected("an argument with a name");
            }
            if !self.is_operator(")") {
                self.expect(",")?;
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }
}
