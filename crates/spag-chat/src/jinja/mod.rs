//! Jinja, with the values of Python, within limits.
//!
//! A template is parsed to a tree, which is walked to render it. What a rendering may take is in `budget`: values, bytes,
//! steps and depth are counted where values are made, so a template from anywhere is an error at worst.

mod access;
mod ast;
mod budget;
mod call;
mod error;
mod eval;
mod filters;
mod methods;
mod parse;
mod run;
mod tests;
mod text;
mod value;

use std::rc::Rc;
use std::sync::Arc;

pub use error::{Error, Fault, Result};
use serde_json::{Map, Value as Json};

use self::run::Run;
use self::value::{Namespace, Scope, Shared, Value};

/// How a library uses Jinja.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Chat templates of transformers: lines of tags leave nothing, and what is missing is an empty text.
    Transformers,
    /// Templates of lm-evaluation-harness: all blanks stay, and what is missing is an error.
    EvaluationHarness,
}

impl Dialect {
    fn trims_blocks(self) -> bool {
        self == Self::Transformers
    }

    fn keeps_last_newline(self) -> bool {
        self == Self::EvaluationHarness
    }

    fn is_strict(self) -> bool {
        self == Self::EvaluationHarness
    }
}

/// A template.
#[derive(Debug)]
pub struct Template {
    body: ast::Body,
    blocks: Vec<Arc<ast::Macro>>,
    dialect: Dialect,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// What is wrong with it, and in which line.
    pub fn new(source: &str, dialect: Dialect) -> Result<Self> {
        let (body, blocks) = parse::template(source, dialect)?;
        Ok(Self { body, blocks, dialect })
    }

    /// The text with these variables.
    ///
    /// # Errors
    /// The template fails, raises an exception, or reaches a limit.
    pub fn render(&self, variables: &Map<String, Json>) -> Result<String> {
        let run = Run::new(self.dialect.is_strict());
        let scope = root(&run, variables)?;
        let mut text = String::new();
        // Assignments of a template hide variables.
        let scope = Scope::new(Some(&scope));
        let own = Rc::new(Namespace::default());
        run.registry.add(&run.budget, Shared::Namespace(Rc::clone(&own)))?;
        for block in &self.blocks {
            let made = eval::made(&run, &scope, block)?;
            own.values.borrow_mut().insert(block.name.clone(), made);
        }
        scope.set(&"self".into(), Value::Namespace(own));
        eval::body(&run, &scope, &self.body, &mut text)?;
        Ok(text)
    }
}

/// One expression.
#[derive(Debug)]
pub struct Expression {
    expr: ast::Expr,
    dialect: Dialect,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// As [`Template::new`].
    pub fn new(source: &str, dialect: Dialect) -> Result<Self> {
        Ok(Self { expr: parse::expression(source, dialect)?, dialect })
    }

    /// Its value with these variables.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn value(&self, variables: &Map<String, Json>) -> Result<Json> {
        let run = Run::new(self.dialect.is_strict());
        let scope = root(&run, variables)?;
        eval::eval(&run, &scope, &self.expr)?.to_json(&run.budget)
    }
}

fn root(run: &Run, variables: &Map<String, Json>) -> Result<Scope> {
    let scope = Scope::new(None);
    for (name, value) in variables {
        scope.set(&name.as_str().into(), Value::from_json(&run.budget, value)?);
    }
    Ok(scope)
}
