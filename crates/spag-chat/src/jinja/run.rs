//! What belongs to one rendering.

use super::budget::Budget;
use super::value::{Registry, Value};

/// One rendering.
pub(crate) struct Run {
    pub(crate) budget: Budget,
    pub(crate) registry: Registry,
    /// Whether missing values fail wherever they are used.
    strict: bool,
}

impl Run {
    pub(crate) fn new(strict: bool) -> Self {
        Self { budget: Budget::new(), registry: Registry::default(), strict }
    }

    /// A value that is missing, with what a use of it fails with.
    pub(crate) fn undefined(&self, why: impl Into<String>) -> Value {
        Value::undefined(why, self.strict)
    }
}
