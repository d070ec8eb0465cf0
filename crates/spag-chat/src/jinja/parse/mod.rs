//! The parser: template source to syntax tree.

mod expressions;
mod lexer;
mod literals;
mod postfix;
mod statements;

use std::sync::Arc;

use super::Dialect;
use super::ast::{Body, Expr, Macro, Uses};
use super::budget::{Depth, Level};
use super::error::{Error, Result, fail};
use lexer::{Kind, Token};

/// Maximum bytes of a source. Templates of models have less than a tenth.
const SOURCE: usize = 1 << 19;
/// Maximum nesting of blocks and expressions. A parenthesis takes three levels; Python allows about as many.
const NESTING: usize = 200;

/// Parses a template into its statements and blocks.
pub(crate) fn template(source: &str, dialect: Dialect) -> Result<(Body, Vec<Arc<Macro>>)> {
    let tokens = tokens(source, dialect)?;
    let depth = Depth::new(NESTING);
    let mut parser = Parser { tokens, at: 0, depth: &depth, uses: Uses::default(), loops: 0, blocks: Vec::new() };
    let body = parser.body(&[]).map_err(|error| error.at(parser.line()))?;
    Ok((body, parser.blocks))
}

/// Parses a text as an expression.
pub(crate) fn expression(source: &str, dialect: Dialect) -> Result<Expr> {
    let tokens = tokens(&format!("{{{{ {source} }}}}"), dialect)?;
    let depth = Depth::new(NESTING);
    let mut parser = Parser { tokens, at: 1, depth: &depth, uses: Uses::default(), loops: 0, blocks: Vec::new() };
    let expr = parser.tuple()?;
    match (parser.peek(), parser.tokens.len() - parser.at) {
        (Kind::VariableEnd, 2) => Ok(expr),
        (other, _) => fail!("unexpected {other} after the expression"),
    }
}

fn tokens(source: &str, dialect: Dialect) -> Result<Vec<Token>> {
    if source.len() > SOURCE {
        return fail!("it is longer than {SOURCE} bytes");
    }
    lexer::tokens(source, dialect)
}

/// The parser's state.
struct Parser<'a> {
    /// Tokens, ending with [`Kind::End`].
    tokens: Vec<Token>,
    at: usize,
    depth: &'a Depth,
    /// The special variables used since the start of the macro.
    uses: Uses,
    /// Number of enclosing loops, which `break` and `continue` need.
    loops: usize,
    blocks: Vec<Arc<Macro>>,
}

impl<'a> Parser<'a> {
    fn enter(&self) -> Result<Level<'a>> {
        self.depth.enter()
    }

    fn line(&self) -> usize {
        self.tokens[self.at].line
    }

    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn next(&mut self) -> Kind {
        let kind = self.peek().clone();
        if kind != Kind::End {
            self.at += 1;
        }
        kind
    }

    fn is_operator(&self, operator: &str) -> bool {
        matches!(self.peek(), Kind::Operator(found) if *found == operator)
    }

    fn skip_operator(&mut self, operator: &str) -> bool {
        let is_it = self.is_operator(operator);
        self.at += usize::from(is_it);
        is_it
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Name(name) if **name == *word)
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, operator: &str) -> Result<()> {
        if self.skip_operator(operator) { Ok(()) } else { self.unexpected(&format!("`{operator}`")) }
    }

    fn name(&mut self) -> Result<Arc<str>> {
        match self.peek() {
            Kind::Name(name) => {
                let name = Arc::clone(name);
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn end_of_block(&mut self) -> Result<()> {
        match self.peek() {
            Kind::BlockEnd => {
                self.at += 1;
                Ok(())
            }
            _ => self.unexpected("the end of the tag"),
        }
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        Err(Error::new(format!("expected {wanted}, found {}", self.peek())).at(self.line()))
    }
}
