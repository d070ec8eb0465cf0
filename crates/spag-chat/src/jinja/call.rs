//! Tables of functions callable by name, and binding of arguments to parameters.

use std::sync::Arc;

use super::budget::Budget;
use super::error::{Result, fail};
use super::run::Run;
use super::value::{self, Text, Value};

/// The arguments of a call.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Vec<(Arc<str>, Value)>,
}

impl Args {
    /// A copy, for one item of a list.
    pub(crate) fn copy(&self, budget: &Budget) -> Result<Self> {
        budget.values(self.positional.len() + self.named.len())?;
        Ok(Self { positional: self.positional.clone(), named: self.named.clone() })
    }

    /// Takes the first argument without a name.
    pub(crate) fn next(&mut self) -> Option<Value> {
        if self.positional.is_empty() { None } else { Some(self.positional.remove(0)) }
    }
}

/// A name, its space-separated parameters, and the function. A parameter with a trailing `?` is optional; the parameters `*` accept
/// any arguments.
pub(crate) struct Entry<R: 'static>(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) fn(&mut Call<'_>, &Value) -> Result<R>,
);

impl<R> Entry<R> {
    /// Finds the entry of a table sorted by name.
    pub(crate) fn find(table: &'static [Self], name: &str) -> Option<&'static Self> {
        table.binary_search_by(|entry| entry.0.cmp(name)).ok().map(|at| &table[at])
    }

    /// Calls it.
    pub(crate) fn call(&self, run: &Run, value: &Value, args: Args) -> Result<R> {
        let mut call = Call { run, budget: &run.budget, name: self.0, bound: Vec::new(), rest: args };
        if self.1 != "*" {
            call.bind(self.1)?;
        }
        (self.2)(&mut call, value)
    }
}

/// A call with its arguments in parameter order.
pub(crate) struct Call<'a> {
    pub(crate) run: &'a Run,
    pub(crate) budget: &'a Budget,
    /// The called name.
    pub(crate) name: &'static str,
    bound: Vec<Option<Value>>,
    /// The arguments, if any are accepted (`*`).
    pub(crate) rest: Args,
}

impl Call<'_> {
    /// Binds the arguments to parameters.
    pub(crate) fn bind(&mut self, parameters: &str) -> Result<()> {
        let Args { positional, named } = std::mem::take(&mut self.rest);
        let names: Vec<&str> = parameters.split_terminator(' ').collect();
        let (function, most) = (self.name, names.len());
        if positional.len() > most {
            return fail!("{function} takes at most {most} arguments ({} given)", positional.len());
        }
        self.bound = positional.into_iter().map(Some).collect();
        self.bound.resize(most, None);
        for (name, value) in named {
            match names.iter().position(|parameter| parameter.trim_end_matches('?') == &*name) {
                Some(index) if self.bound[index].is_none() => self.bound[index] = Some(value),
                Some(_) => return fail!("{function} got multiple values for argument '{name}'"),
                None => return fail!("{function} got an unexpected keyword argument '{name}'"),
            }
        }
        let lacks = |(name, bound): (&&&str, &Option<Value>)| bound.is_none() && !name.ends_with('?');
        match names.iter().zip(&self.bound).find(|(name, bound)| lacks((name, bound))) {
            Some((missing, _)) => fail!("{function} lacks the argument '{missing}'"),
            None => Ok(()),
        }
    }

    /// An argument, if passed.
    pub(crate) fn passed(&self, index: usize) -> Option<&Value> {
        self.bound.get(index)?.as_ref()
    }

    /// An argument, if passed and not Python's `None`.
    pub(crate) fn given(&self, index: usize) -> Option<&Value> {
        self.passed(index).filter(|value| !matches!(value, Value::None))
    }

    /// An argument, or Python's `None`.
    pub(crate) fn arg(&self, index: usize) -> &Value {
        self.passed(index).unwrap_or(&Value::None)
    }

    /// Whether an argument is passed and true.
    pub(crate) fn is_set(&self, index: usize) -> Result<bool> {
        self.passed(index).map_or(Ok(false), Value::truth)
    }

    /// An integer argument with a default.
    pub(crate) fn int(&self, index: usize, default: i128) -> Result<i128> {
        self.passed(index).map_or(Ok(default), Value::int)
    }

    /// A text derived from another one; it is HTML if that one is.
    pub(crate) fn made(&self, text: impl Into<Arc<str>>, like: &Text) -> Result<Value> {
        Value::made(self.budget, text, like.markup)
    }

    /// The text of any value, counted before it is built.
    pub(crate) fn own(&self, value: &Value) -> Result<Text> {
        let text = match value {
            Value::Text(text) => text.clone(),
            other => Text { text: value::text(self.budget, other)?.into(), markup: false },
        };
        self.budget.work(text.text.len())?;
        Ok(text)
    }
}
