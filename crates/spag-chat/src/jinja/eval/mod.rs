//! Evaluation of expressions.

mod calls;
mod functions;
mod statements;

pub(crate) use calls::call;
pub(crate) use functions::FUNCTIONS;
pub(crate) use statements::{body, made};

use super::access::{attribute, subscript};
use super::ast::{Arguments, Expr, Postfix};
use super::budget::NODE;
use super::call::{Args, Entry};
use super::error::{Result, fail};
use super::filters::filter;
use super::run::Run;
use super::tests::test;
use super::value::{self, Scope, Value, binary, compare, items, negative, positive, quoted, slice};

/// The value of an expression.
pub(crate) fn eval(run: &Run, scope: &Scope, expr: &Expr) -> Result<Value> {
    run.budget.work(NODE)?;
    match expr {
        Expr::None => Ok(Value::None),
        Expr::Bool(value) => Ok(Value::Bool(*value)),
        Expr::Int(value) => Ok(Value::Int(*value)),
        Expr::Float(value) => Ok(Value::Float(*value)),
        Expr::Text(text) => Ok(Value::plain(text.clone())),
        Expr::Name(name) => {
            run.budget.work(name.len())?;
            Ok(lookup(run, scope, name))
        }
        Expr::Postfix(..) | Expr::Chain(..) => {
            let _level = run.budget.enter()?;
            chain(run, scope, expr)
        }
        expr => {
            let _level = run.budget.enter()?;
            nested(run, scope, expr)
        }
    }
}

fn lookup(run: &Run, scope: &Scope, name: &str) -> Value {
    let found = scope.get(name).or_else(|| Entry::find(FUNCTIONS, name).map(|found| Value::Function(found.0)));
    found.unwrap_or_else(|| run.undefined(format!("{} is undefined", quoted(name))))
}

fn all(run: &Run, scope: &Scope, exprs: &[Expr]) -> Result<Vec<Value>> {
    run.budget.values(exprs.len())?;
    exprs.iter().map(|expr| eval(run, scope, expr)).collect()
}

fn nested(run: &Run, scope: &Scope, expr: &Expr) -> Result<Value> {
    match expr {
        Expr::List(exprs) => Value::list(&run.budget, all(run, scope, exprs)?),
        Expr::Tuple(exprs) => Value::tuple(&run.budget, all(run, scope, exprs)?),
        Expr::Dict(pairs) => {
            let mut evaluated = Vec::with_capacity(pairs.len());
            for (key, value) in pairs {
                evaluated.push((eval(run, scope, key)?, eval(run, scope, value)?));
            }
            Value::dict(&run.budget, evaluated)
        }
        Expr::Concat(exprs) => concat(run, &all(run, scope, exprs)?),
        Expr::Compare(first, more) => {
            let mut left = eval(run, scope, first)?;
            for (operator, expr) in more {
                let right = eval(run, scope, expr)?;
                if !compare(&run.budget, *operator, &left, &right)? {
                    return Ok(Value::Bool(false));
                }
                left = right;
            }
            Ok(Value::Bool(true))
        }
        Expr::And(exprs) => until(run, scope, exprs, false),
        Expr::Or(exprs) => until(run, scope, exprs, true),
        Expr::Not(expr) => Ok(Value::Bool(!eval(run, scope, expr)?.truth()?)),
        Expr::Negative(expr) => negative(&eval(run, scope, expr)?),
        Expr::Positive(expr) => positive(&eval(run, scope, expr)?),
        Expr::If(parts) => {
            let (then, condition, otherwise) = &**parts;
            if eval(run, scope, condition)?.truth()? {
                return eval(run, scope, then);
            }
            match otherwise {
                Some(otherwise) => eval(run, scope, otherwise),
                None => {
                    Ok(run.undefined("the inline if-expression evaluated to false and no else section was defined"))
                }
            }
        }
        other => chain(run, scope, other),
    }
}

/// The first value whose truth is `end`, else the last one.
fn until(run: &Run, scope: &Scope, exprs: &[Expr], end: bool) -> Result<Value> {
    let mut last = Value::None;
    for (index, expr) in exprs.iter().enumerate() {
        last = eval(run, scope, expr)?;
        if index + 1 < exprs.len() && last.truth()? == end {
            break;
        }
    }
    Ok(last)
}

fn concat(run: &Run, values: &[Value]) -> Result<Value> {
    let mut parts = Vec::with_capacity(values.len());
    for value in values {
        parts.push(match value {
            Value::Text(text) => text.text.clone(),
            other => value::text(&run.budget, other)?.into(),
        });
    }
    Value::text(&run.budget, super::text::joined(&run.budget, &parts, "")?)
}

fn chain(run: &Run, scope: &Scope, expr: &Expr) -> Result<Value> {
    match expr {
        Expr::Chain(first, more) => {
            let mut left = eval(run, scope, first)?;
            for (operator, expr) in more {
                let right = eval(run, scope, expr)?;
                run.budget.work(NODE)?;
                left = binary(&run.budget, *operator, &left, &right)?;
            }
            Ok(left)
        }
        Expr::Postfix(first, all) => {
            let value = eval(run, scope, first)?;
            // `caller` and loops are called by name; everything else is a value.
            postfixes(run, scope, value, all)
        }
        _ => fail!("the expression has no value"),
    }
}

/// Applies attributes, items, calls, filters and tests to a value.
pub(crate) fn postfixes(run: &Run, scope: &Scope, mut value: Value, all: &[Postfix]) -> Result<Value> {
    for postfix in all {
        run.budget.work(NODE)?;
        value = match postfix {
            Postfix::Attribute(name) => attribute(run, &value, name)?,
            Postfix::Item(expr) => subscript(run, &value, &eval(run, scope, expr)?)?,
            Postfix::Slice(parts) => sliced(run, scope, &value, parts)?,
            Postfix::Call(arguments) => call(run, &value, args(run, scope, arguments)?)?,
            Postfix::Filter(name, arguments) => filter(run, name, &value, args(run, scope, arguments)?)?,
            Postfix::Test(name, arguments) => Value::Bool(test(run, name, &value, args(run, scope, arguments)?)?),
            Postfix::Untest(name, arguments) => Value::Bool(!test(run, name, &value, args(run, scope, arguments)?)?),
        };
    }
    Ok(value)
}

fn sliced(run: &Run, scope: &Scope, value: &Value, parts: &[Option<Expr>; 3]) -> Result<Value> {
    let mut places = [None; 3];
    for (place, part) in places.iter_mut().zip(parts) {
        let part = part.as_ref().map(|part| eval(run, scope, part)).transpose()?;
        *place = match part {
            None | Some(Value::None) => None,
            Some(part) => match part.as_int() {
                Some(place) => Some(place),
                None => return Ok(run.undefined("slice indices must be integers or None")),
            },
        };
    }
    let found = slice(&run.budget, value.defined()?, places)?;
    Ok(found.unwrap_or_else(|| run.undefined(format!("'{}' object has no slices", value.type_name()))))
}

fn args(run: &Run, scope: &Scope, arguments: &Arguments) -> Result<Args> {
    let mut positional = all(run, scope, &arguments.positional)?;
    if let Some(list) = &arguments.list {
        positional.extend(items(&run.budget, &eval(run, scope, list)?)?);
    }
    let mut named = Vec::with_capacity(arguments.named.len());
    for (name, expr) in &arguments.named {
        named.push((name.clone(), eval(run, scope, expr)?));
    }
    if let Some(dict) = &arguments.dict {
        let Value::Dict(dict) = eval(run, scope, dict)? else { return fail!("argument after ** must be a mapping") };
        run.budget.values(dict.len())?;
        for (key, value) in dict.iter() {
            named.push((key.value().str()?.into(), value.clone()));
        }
    }
    Ok(Args { positional, named })
}
