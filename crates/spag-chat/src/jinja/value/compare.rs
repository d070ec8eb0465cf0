//! Comparisons of values. Each compared pair counts as a step.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Key, Value, items};
use crate::jinja::ast::Comparison;
use crate::jinja::budget::{Budget, NODE};
use crate::jinja::error::{Error, Result, fail};

/// `a operator b`.
pub(crate) fn compare(budget: &Budget, operator: Comparison, a: &Value, b: &Value) -> Result<bool> {
    Ok(match operator {
        Comparison::Equal => equal(budget, a, b)?,
        Comparison::Unequal => !equal(budget, a, b)?,
        Comparison::Less => order(budget, a, b)? == Some(Ordering::Less),
        Comparison::LessEqual => matches!(order(budget, a, b)?, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order(budget, a, b)? == Some(Ordering::Greater),
        Comparison::GreaterEqual => matches!(order(budget, a, b)?, Some(Ordering::Greater | Ordering::Equal)),
        Comparison::In => contains(budget, b, a)?,
        Comparison::NotIn => !contains(budget, b, a)?,
    })
}

/// Whether two numbers are equal; `None` if one is not a number.
pub(super) fn same_number(a: &Value, b: &Value) -> Option<bool> {
    numbers(a, b).map(|order| order == Some(Ordering::Equal))
}

/// The order of two numbers; NaN has none.
fn numbers(a: &Value, b: &Value) -> Option<Option<Ordering>> {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => Some(a.partial_cmp(b)),
        (Value::Float(a), b) => Some(with_int(*a, b.as_int()?)),
        (a, Value::Float(b)) => Some(with_int(*b, a.as_int()?).map(Ordering::reverse)),
        (a, b) => Some(Some(a.as_int()?.cmp(&b.as_int()?))),
    }
}

/// The exact order of a float and an integer.
fn with_int(float: f64, int: i128) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float.abs() >= 1.7e38 {
        return Some(if float > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let whole = (float.floor() as i128).cmp(&int);
    Some(if whole == Ordering::Equal && float.fract() != 0.0 { Ordering::Greater } else { whole })
}

/// `a == b`.
pub(crate) fn equal(budget: &Budget, a: &Value, b: &Value) -> Result<bool> {
    budget.work(NODE)?;
    if let Some(same) = same_number(a, b) {
        return Ok(same);
    }
    let _level = budget.enter()?;
    let lists = |a: &[Value], b: &[Value]| -> Result<bool> {
        if a.len() != b.len() {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(b) {
            if !equal(budget, a, b)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    Ok(match (a, b) {
        (Value::Undefined(undefined), _) | (_, Value::Undefined(undefined)) if undefined.strict => {
            return Err(Error::new(undefined.why.clone()));
        }
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Value::Text(a), Value::Text(b)) => {
            budget.work(a.text.len().min(b.text.len()))?;
            a.text == b.text
        }
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            Rc::ptr_eq(a, b) || lists(&a.items, &b.items)?
        }
        (Value::Range(a), Value::Range(b)) => {
            (a.len(), a.begin) == (b.len(), b.begin) && (a.len() < 2 || a.step == b.step)
                || (a.len(), b.len()) == (0, 0)
        }
        (Value::Dict(a), Value::Dict(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in a.iter() {
                Key::new(budget, key.value().clone())?;
                match b.get(key) {
                    Some(other) if equal(budget, value, other)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
        (Value::Iter(a), Value::Iter(b)) => Rc::ptr_eq(a, b),
        (Value::Loop(a), Value::Loop(b)) => Rc::ptr_eq(a, b),
        (Value::Macro(a), Value::Macro(b)) => Rc::ptr_eq(a, b),
        (Value::Function(a), Value::Function(b)) => a == b,
        _ => false,
    })
}

/// The order of two values; an error if they cannot be ordered.
fn order(budget: &Budget, a: &Value, b: &Value) -> Result<Option<Ordering>> {
    budget.work(NODE)?;
    if let Some(order) = numbers(a, b) {
        return Ok(order);
    }
    let _level = budget.enter()?;
    match (a, b) {
        (Value::Undefined(undefined), _) | (_, Value::Undefined(undefined)) => Err(Error::new(undefined.why.clone())),
        (Value::Text(a), Value::Text(b)) => {
            budget.work(a.text.len().min(b.text.len()))?;
            // UTF-8 sorts like the code points.
            Ok(Some(a.text.cmp(&b.text)))
        }
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(budget, a, b)? {
                    return order(budget, a, b);
                }
            }
            Ok(Some(a.items.len().cmp(&b.items.len())))
        }
        _ => fail!("'<' not supported between instances of '{}' and '{}'", a.type_name(), b.type_name()),
    }
}

/// `value in container`.
fn contains(budget: &Budget, container: &Value, value: &Value) -> Result<bool> {
    match (container, value) {
        (Value::Text(text), Value::Text(part)) => {
            budget.work(text.text.len())?;
            Ok(text.text.contains(&*part.text))
        }
        (Value::Text(_), other) => {
            fail!("'in <string>' requires string as left operand, not {}", other.type_name())
        }
        (Value::Dict(dict) | Value::View(super::View::Keys, dict), key) => {
            Ok(dict.get(&Key::new(budget, key.clone())?).is_some())
        }
        (Value::Range(range), value) if value.as_int().is_some() => {
            let (at, step) = (value.int()?.saturating_sub(range.begin), range.step);
            let index = at.checked_div(step).and_then(|index| usize::try_from(index).ok());
            Ok(at.checked_rem(step) == Some(0) && index.is_some_and(|index| index < range.len()))
        }
        (Value::List(seq) | Value::Tuple(seq), value) => {
            for item in &seq.items {
                if equal(budget, item, value)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (other, value) => {
            for item in items(budget, other)? {
                if equal(budget, &item, value)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}
