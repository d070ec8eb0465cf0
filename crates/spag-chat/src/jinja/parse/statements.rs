//! Statements: text, output and tags.

use std::sync::Arc;

use super::Parser;
use super::lexer::Kind;
use crate::jinja::ast::{Body, Expr, For, Macro, Node, Postfix, Recursive, Statement, Target, Uses};
use crate::jinja::error::{Error, Result, fail};

impl Parser<'_> {
    /// Parses statements up to one of the tags, whose name is then the next token.
    pub(super) fn body(&mut self, ends: &[&str]) -> Result<Body> {
        let _level = self.enter()?;
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let statement = match self.next() {
                Kind::Text(text) => Statement::Text(text),
                Kind::VariableBegin => {
                    let expr = self.tuple()?;
                    if *self.peek() != Kind::VariableEnd {
                        return self.unexpected("the end of the output");
                    }
                    self.at += 1;
                    Statement::Print(expr)
                }
                Kind::BlockBegin => {
                    if ends.iter().any(|end| self.is_word(end)) {
                        return Ok(body);
                    }
                    self.tag().map_err(|error| error.at(line))?
                }
                Kind::End if ends.is_empty() => return Ok(body),
                Kind::End => {
                    return Err(Error::new(format!("the template ends without {}", ends.join(" or "))).at(line));
                }
                _ => return self.unexpected("text or a tag"),
            };
            body.push(Node { line, statement });
        }
    }

    /// Parses statements up to and including the tag.
    fn body_to(&mut self, end: &str) -> Result<Body> {
        let body = self.body(&[end])?;
        self.at += 1;
        self.end_of_block()?;
        Ok(body)
    }

    /// As [`Parser::body_to`], with no enclosing loop for `break`.
    fn function_body(&mut self, end: &str) -> Result<(Body, Uses)> {
        let (uses, loops) = (std::mem::take(&mut self.uses), std::mem::take(&mut self.loops));
        let body = self.body_to(end)?;
        let own = self.uses;
        self.uses.add(uses);
        self.loops = loops;
        Ok((body, own))
    }

    fn tag(&mut self) -> Result<Statement> {
        let name = self.name()?;
        let statement = match &*name {
            "for" => return self.for_tag(),
            "if" => return self.if_tag(),
            "set" => return self.set_tag(),
            "macro" => return self.macro_tag(),
            "call" => return self.call_tag(),
            "with" => {
                let mut values = Vec::new();
                while *self.peek() != Kind::BlockEnd {
                    if !values.is_empty() {
                        self.expect(",")?;
                    }
                    let target = self.targets()?;
                    self.expect("=")?;
                    values.push((target, self.expression()?));
                }
                self.end_of_block()?;
                return Ok(Statement::With(values, self.body_to("endwith")?));
            }
            "filter" => {
                let mut filters = Vec::new();
                self.filter(&mut filters)?;
                self.filters(&mut filters)?;
                self.end_of_block()?;
                return Ok(Statement::Filter(filters, self.body_to("endfilter")?));
            }
            "autoescape" => return fail!("the tag `autoescape` is not supported"),
            "generation" => {
                self.end_of_block()?;
                let (body, _) = self.function_body("endgeneration")?;
                return Ok(Statement::Scope(body));
            }
            "block" => return self.block_tag(),
            "print" => match self.tuple()? {
                Expr::Tuple(all) => Statement::Print(Expr::Concat(all)),
                one => Statement::Print(one),
            },
            "break" | "continue" if self.loops == 0 => return fail!("`{name}` is not within a loop"),
            "break" => Statement::Break,
            "continue" => Statement::Continue,
            "extends" | "include" | "import" | "from" => {
                while !matches!(self.peek(), Kind::BlockEnd | Kind::End) {
                    self.at += 1;
                }
                Statement::Load(name)
            }
            _ => return fail!("unknown tag `{}`", name.chars().take(50).collect::<String>()),
        };
        self.end_of_block()?;
        Ok(statement)
    }

    fn for_tag(&mut self) -> Result<Statement> {
        let target = self.targets()?;
        if !self.skip_word("in") {
            return self.unexpected("`in`");
        }
        let iterable = self.tuple_without_condition()?;
        let condition = if self.skip_word("if") { Some(self.expression()?) } else { None };
        let recursive = if self.skip_word("recursive") { Recursive::Yes } else { Recursive::No };
        self.end_of_block()?;
        self.loops += 1;
        let body = self.body(&["else", "endfor"])?;
        self.loops -= 1;
        let otherwise = if self.skip_word("else") {
            self.end_of_block()?;
            self.body(&["endfor"])?
        } else {
            Vec::new()
        };
        self.at += 1;
        self.end_of_block()?;
        Ok(Statement::For(Arc::new(For { target, iterable, condition, recursive, body, otherwise })))
    }

    fn if_tag(&mut self) -> Result<Statement> {
        let mut branches = Vec::new();
        loop {
            let condition = self.tuple_without_condition()?;
            self.end_of_block()?;
            branches.push((condition, self.body(&["elif", "else", "endif"])?));
            if self.skip_word("elif") {
                continue;
            }
            let otherwise = if self.skip_word("else") {
                self.end_of_block()?;
                self.body(&["endif"])?
            } else {
                Vec::new()
            };
            self.at += 1;
            self.end_of_block()?;
            return Ok(Statement::If(branches, otherwise));
        }
    }

    fn set_tag(&mut self) -> Result<Statement> {
        let target = self.targets()?;
        if self.skip_operator("=") {
            let value = self.tuple()?;
            self.end_of_block()?;
            return Ok(Statement::Set(target, value));
        }
        let mut filters = Vec::new();
        self.filters(&mut filters)?;
        self.end_of_block()?;
        Ok(Statement::SetBlock(target, filters, self.body_to("endset")?))
    }

    fn macro_tag(&mut self) -> Result<Statement> {
        let name = self.name()?;
        let parameters = self.parameters()?;
        self.end_of_block()?;
        let (body, uses) = self.function_body("endmacro")?;
        Ok(Statement::Macro(Arc::new(Macro { name, parameters, body, uses })))
    }

    fn call_tag(&mut self) -> Result<Statement> {
        let parameters = if self.is_operator("(") { self.parameters()? } else { Vec::new() };
        let mut all = Vec::new();
        let callee = self.primary()?;
        self.postfix(&mut all)?;
        if !matches!(all.last(), Some(Postfix::Call(_))) {
            return self.unexpected("a call");
        }
        self.end_of_block()?;
        let (body, uses) = self.function_body("endcall")?;
        let caller = Macro { name: "caller".into(), parameters, body, uses };
        Ok(Statement::Call(Arc::new(caller), Expr::Postfix(Box::new(callee), all)))
    }

    fn block_tag(&mut self) -> Result<Statement> {
        let name = self.name()?;
        while self.skip_word("scoped") || self.skip_word("required") {}
        self.end_of_block()?;
        let (uses, loops) = (self.uses, std::mem::take(&mut self.loops));
        let body = self.body(&["endblock"])?;
        (self.uses, self.loops) = (uses, loops);
        self.at += 1;
        self.skip_word(&name);
        self.end_of_block()?;
        let block = Arc::new(Macro { name, parameters: Vec::new(), body, uses: Uses::default() });
        self.blocks.push(Arc::clone(&block));
        Ok(Statement::Block(block))
    }

    fn parameters(&mut self) -> Result<Vec<(Arc<str>, Option<Expr>)>> {
        self.expect("(")?;
        let mut parameters: Vec<(Arc<str>, Option<Expr>)> = Vec::new();
        while !self.is_operator(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
            }
            let name = self.name()?;
            let default = if self.skip_operator("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.last().is_some_and(|(_, before)| before.is_some()) {
                return fail!("the parameter `{name}` without a default follows one with a default");
            }
            parameters.push((name, default));
        }
        self.expect(")")?;
        Ok(parameters)
    }

    /// Comma-separated targets.
    fn targets(&mut self) -> Result<Target> {
        let first = self.target()?;
        if !self.is_operator(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.skip_operator(",") && !self.is_operator(")") && !self.is_word("in") {
            all.push(self.target()?);
        }
        Ok(Target::Tuple(all))
    }

    fn target(&mut self) -> Result<Target> {
        let _level = self.enter()?;
        if self.skip_operator("(") {
            let all = self.targets()?;
            self.expect(")")?;
            return Ok(all);
        }
        let name = self.name()?;
        if ["true", "false", "none", "True", "False", "None"].contains(&&*name) {
            return fail!("`{name}` cannot be assigned to");
        }
        if self.skip_operator(".") { Ok(Target::Attribute(name, self.name()?)) } else { Ok(Target::Name(name)) }
    }
}
