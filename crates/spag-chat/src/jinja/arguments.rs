//! Arguments of filters, tests, methods and functions.

use std::sync::Arc;

use super::error::{Result, fail};
use super::value::Value;

/// What a call passes.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Vec<(Arc<str>, Value)>,
}

impl Args {
    pub(crate) fn of(positional: Vec<Value>) -> Self {
        Self { positional, named: Vec::new() }
    }

    /// The arguments of a function with these parameters, of which the first `required` have no default.
    pub(crate) fn bind<const N: usize>(
        self,
        function: &str,
        parameters: [&str; N],
        required: usize,
    ) -> Result<[Option<Value>; N]> {
        if self.positional.len() > N {
            return fail!("{function} takes at most {N} arguments ({} given)", self.positional.len());
        }
        let mut bound = [const { None }; N];
        for (place, value) in bound.iter_mut().zip(self.positional) {
            *place = Some(value);
        }
        for (name, value) in self.named {
            match parameters.iter().position(|parameter| **parameter == *name) {
                Some(index) if bound[index].is_none() => bound[index] = Some(value),
                Some(_) => return fail!("{function} got multiple values for argument '{name}'"),
                None => return fail!("{function} got an unexpected keyword argument '{name}'"),
            }
        }
        match (0..required.min(N)).find(|index| bound[*index].is_none()) {
            Some(missing) => fail!("{function} lacks the argument '{}'", parameters[missing]),
            None => Ok(bound),
        }
    }

    /// As [`Args::bind`] for a function without parameters.
    pub(crate) fn none(self, function: &str) -> Result<()> {
        self.bind(function, [], 0).map(|[]| ())
    }
}

/// An argument, or `None` if it is absent or Python's `None`.
pub(crate) fn given(value: Option<Value>) -> Option<Value> {
    value.filter(|value| !matches!(value, Value::None))
}
