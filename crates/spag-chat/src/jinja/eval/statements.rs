//! Execution of statements.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::functions::set_in;
use super::{call, eval, lookup, postfixes};
use crate::jinja::ast::{self, Body, Expr, For, Postfix, Recursive, Statement, Target};
use crate::jinja::budget::NODE;
use crate::jinja::call::Args;
use crate::jinja::error::{Result, fail};
use crate::jinja::run::Run;
use crate::jinja::value::{self, Loop, Macro, Scope, Seq, Value, items};

/// Control flow after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Statement,
    /// Leave the loop.
    Break,
    /// Go on with the loop's next item.
    Continue,
}

/// Executes statements and writes their output.
pub(crate) fn body(run: &Run, scope: &Scope, body: &Body, out: &mut String) -> Result<Next> {
    let _level = run.budget.enter()?;
    for node in body {
        let next = statement(run, scope, &node.statement, out).map_err(|error| error.at(node.line))?;
        if next != Next::Statement {
            return Ok(next);
        }
    }
    Ok(Next::Statement)
}

fn write(run: &Run, out: &mut String, text: &str) -> Result<()> {
    run.budget.work(text.len())?;
    if out.len() + text.len() > out.capacity() {
        run.budget.text((out.len() + text.len()).saturating_mul(2))?;
    }
    out.push_str(text);
    Ok(())
}

fn print(run: &Run, out: &mut String, value: &Value) -> Result<()> {
    match value {
        Value::Text(text) => write(run, out, &text.text),
        other => write(run, out, &value::text(&run.budget, other)?),
    }
}

fn statement(run: &Run, scope: &Scope, statement: &Statement, out: &mut String) -> Result<Next> {
    run.budget.work(NODE)?;
    match statement {
        Statement::Text(text) => write(run, out, text)?,
        Statement::Print(expr) => print(run, out, &eval(run, scope, expr)?)?,
        Statement::If(branches, otherwise) => return condition(run, scope, branches, otherwise, out),
        Statement::For(tag) => {
            let iterable = eval(run, scope, &tag.iterable)?;
            return for_loop(run, scope, tag, &iterable, 0, out);
        }
        Statement::Set(target, expr) => {
            let value = eval(run, scope, expr)?;
            assign(run, scope, target, value)?;
        }
        Statement::Break => return Ok(Next::Break),
        Statement::Continue => return Ok(Next::Continue),
        Statement::Load(tag) => return fail!("`{tag}` has no templates to load"),
        other => return block(run, scope, other, out),
    }
    Ok(Next::Statement)
}

fn condition(run: &Run, scope: &Scope, branches: &[(Expr, Body)], otherwise: &Body, out: &mut String) -> Result<Next> {
    for (condition, then) in branches {
        if eval(run, scope, condition)?.truth()? {
            return body(run, scope, then, out);
        }
    }
    body(run, scope, otherwise, out)
}

/// Executes a statement with its own scope or output.
fn block(run: &Run, scope: &Scope, statement: &Statement, out: &mut String) -> Result<Next> {
    match statement {
        Statement::SetBlock(target, filters, inside) => {
            let (text, next) = captured(run, scope, filters, inside)?;
            if next == Next::Statement {
                assign(run, scope, target, text)?;
            }
            return Ok(next);
        }
        Statement::Filter(filters, inside) => {
            let (text, next) = captured(run, scope, filters, inside)?;
            if next == Next::Statement {
                print(run, out, &text)?;
            }
            return Ok(next);
        }
        Statement::With(values, inside) => {
            let own = Scope::new(Some(scope));
            for (target, expr) in values {
                let value = eval(run, scope, expr)?;
                assign(run, &own, target, value)?;
            }
            return body(run, &own, inside, out);
        }
        Statement::Block(block) => return body(run, &Scope::new(Some(scope)), &block.body, out),
        Statement::Scope(inside) => return body(run, &Scope::new(Some(scope)), inside, out),
        Statement::Macro(definition) => {
            let made = made(run, scope, definition)?;
            scope.set(&definition.name, made);
        }
        Statement::Call(caller, Expr::Postfix(callee, all)) => {
            let caller = made(run, scope, caller)?;
            let Some((Postfix::Call(arguments), before)) = all.split_last() else { return Ok(Next::Statement) };
            let callee = postfixes(run, scope, eval(run, scope, callee)?, before)?;
            let Args { positional, mut named } = super::args(run, scope, arguments)?;
            named.push(("caller".into(), caller));
            print(run, out, &call(run, &callee, Args { positional, named })?)?;
        }
        _ => {}
    }
    Ok(Next::Statement)
}

pub(crate) fn made(run: &Run, scope: &Scope, definition: &Arc<ast::Macro>) -> Result<Value> {
    run.registry.add_scope(&run.budget, scope)?;
    Ok(Value::Macro(Rc::new(Macro { definition: Arc::clone(definition), scope: scope.clone() })))
}

/// The output of statements, passed through filters.
fn captured(run: &Run, scope: &Scope, filters: &[Postfix], inside: &Body) -> Result<(Value, Next)> {
    let own = Scope::new(Some(scope));
    let mut text = String::new();
    let next = body(run, &own, inside, &mut text)?;
    let text = Value::text(&run.budget, text)?;
    Ok((postfixes(run, &own, text, filters)?, next))
}

/// Writes a loop over the items of a value.
pub(super) fn for_loop(
    run: &Run,
    scope: &Scope,
    tag: &Arc<For>,
    iterable: &Value,
    depth: usize,
    out: &mut String,
) -> Result<Next> {
    let _level = run.budget.enter()?;
    let mut all = items(&run.budget, iterable)?;
    if let Some(condition) = &tag.condition {
        let mut kept = Vec::new();
        for item in all {
            let own = Scope::new(Some(scope));
            assign(run, &own, &tag.target, item.clone())?;
            if eval(run, &own, condition)?.truth()? {
                kept.push(item);
            }
        }
        all = kept;
    }
    if all.is_empty() {
        return body(run, &Scope::new(Some(scope)), &tag.otherwise, out);
    }
    let again = match tag.recursive {
        Recursive::Yes => {
            run.registry.add_scope(&run.budget, scope)?;
            Some((Arc::clone(tag), scope.clone()))
        }
        Recursive::No => None,
    };
    let items: Seq = value::seq(&run.budget, all)?;
    let state = Rc::new(Loop { items, at: Cell::new(0), depth, changed: RefCell::new(None), again });
    let name: Arc<str> = "loop".into();
    for (index, item) in state.items.items.iter().enumerate() {
        state.at.set(index);
        let own = Scope::new(Some(scope));
        own.set(&name, Value::Loop(Rc::clone(&state)));
        assign(run, &own, &tag.target, item.clone())?;
        if body(run, &own, &tag.body, out)? == Next::Break {
            break;
        }
    }
    Ok(Next::Statement)
}

fn assign(run: &Run, scope: &Scope, target: &Target, value: Value) -> Result<()> {
    run.budget.work(NODE)?;
    match target {
        Target::Name(name) => {
            scope.set(name, value);
            Ok(())
        }
        Target::Attribute(object, name) => match lookup(run, scope, object).defined()? {
            Value::Namespace(namespace) => set_in(run, namespace, name.clone(), value),
            _ => fail!("cannot assign attribute on non-namespace object"),
        },
        Target::Tuple(targets) => {
            let values = items(&run.budget, &value)?;
            if values.len() != targets.len() {
                return fail!("{} values to unpack, expected {}", values.len(), targets.len());
            }
            targets.iter().zip(values).try_for_each(|(target, value)| assign(run, scope, target, value))
        }
    }
}
