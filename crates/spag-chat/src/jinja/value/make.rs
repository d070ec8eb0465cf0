//! Constructors of values, which count them against the budget.

use std::rc::Rc;
use std::sync::Arc;

use super::{Dict, Iter, Key, Seq, Text, Undefined, Value};
use crate::jinja::budget::{Budget, LEVELS, VALUE};
use crate::jinja::error::{Result, fail};

impl Value {
    /// A text that is short or already counted.
    pub(crate) fn plain(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text { text: text.into(), markup: false })
    }

    /// A text.
    pub(crate) fn text(budget: &Budget, text: impl Into<Arc<str>>) -> Result<Self> {
        Self::made(budget, text, false)
    }

    /// A text, which may be HTML.
    pub(crate) fn made(budget: &Budget, text: impl Into<Arc<str>>, markup: bool) -> Result<Self> {
        let text = text.into();
        budget.text(text.len() + VALUE)?;
        Ok(Self::Text(Text { text, markup }))
    }

    pub(crate) fn list(budget: &Budget, items: Vec<Self>) -> Result<Self> {
        Ok(Self::List(Rc::new(seq(budget, items)?)))
    }

    pub(crate) fn tuple(budget: &Budget, items: Vec<Self>) -> Result<Self> {
        Ok(Self::Tuple(Rc::new(seq(budget, items)?)))
    }

    /// A pair of `groupby`.
    pub(crate) fn group(budget: &Budget, grouper: Self, list: Self) -> Result<Self> {
        Ok(Self::Tuple(Rc::new(Seq { is_group: true, ..seq(budget, vec![grouper, list])? })))
    }

    /// An iterator, whose items can be taken once.
    pub(crate) fn iter(budget: &Budget, type_name: &'static str, items: Vec<Self>) -> Result<Self> {
        Ok(Self::Iter(Rc::new(Iter::new(type_name, seq(budget, items)?))))
    }

    pub(crate) fn dict(budget: &Budget, pairs: impl IntoIterator<Item = (Self, Self)>) -> Result<Self> {
        let mut dict = Dict::default();
        for (key, value) in pairs {
            dict.insert(budget, Key::new(budget, key)?, value)?;
        }
        Ok(Self::Dict(Rc::new(dict)))
    }

    pub(crate) fn undefined(why: impl Into<String>, strict: bool) -> Self {
        Self::Undefined(Rc::new(Undefined { why: why.into(), strict }))
    }
}

pub(crate) fn seq(budget: &Budget, items: Vec<Value>) -> Result<Seq> {
    budget.values(items.len() + 1)?;
    let levels = levels(items.iter())?;
    Ok(Seq { items, levels, is_group: false })
}

/// The nesting level of a container of these values.
pub(super) fn levels<'a>(values: impl Iterator<Item = &'a Value>) -> Result<usize> {
    let levels = 1 + values.map(Value::levels).max().unwrap_or(0);
    if levels > LEVELS {
        return fail!("the template nests values more than {LEVELS} levels deep");
    }
    Ok(levels)
}
