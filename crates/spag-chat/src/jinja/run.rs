//! The state of one rendering.

use super::budget::Budget;
use super::value::{Registry, Value};

/// One rendering.
pub(crate) struct Run {
    pub(crate) budget: Budget,
    pub(crate) registry: Registry,
    /// Whether undefined values fail on every use.
    strict: bool,
}

impl Run {
    pub(crate) fn new(strict: bool) -> Self {
        Self { budget: Budget::new(), registry: Registry::default(), strict }
    }

    /// An undefined value, with the error message of its uses.
    pub(crate) fn undefined(&self, why: impl Into<String>) -> Value {
        Value::undefined(why, self.strict)
    }
}
