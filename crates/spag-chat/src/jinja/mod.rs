//! A Jinja interpreter with Python semantics and resource limits.
//!
//! A template is parsed to a tree, which is walked to render it. `budget` limits values, bytes, steps and depth where
//! values are made, so an untrusted template can at worst return an error.

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

/// The Jinja settings of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Chat templates of transformers: lines with only tags are removed, and undefined values render as empty text.
    Transformers,
    /// Templates of lm-evaluation-harness: all whitespace is kept, and undefined values are errors.
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
    /// A syntax error, with its line.
    pub fn new(source: &str, dialect: Dialect) -> Result<Self> {
        let (body, blocks) = parse::template(source, dialect)?;
        Ok(Self { body, blocks, dialect })
    }

    /// Renders the template with these variables.
    ///
    /// # Errors
    /// The template fails, raises an exception, or reaches a limit.
    pub fn render(&self, variables: &Map<String, Json>) -> Result<String> {
        let run = Run::new(self.dialect.is_strict());
        let scope = root(&run, variables)?;
        let mut text = String::new();
        // Assignments of a template shadow variables.
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

    /// Evaluates the expression with these variables.
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
