//! Classes of sequences by length, for RoPE whose frequencies depend on it.

use crate::config::Architecture;

/// The frequencies of a sequence: all of its tokens have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LengthClass {
    /// Those of most models, and of short sequences with LongRoPE.
    #[default]
    Usual,
    /// Those of sequences that are longer than the model's positions before the scaling.
    Long,
}

/// Tells the class of a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthClasses {
    long_after: Option<usize>,
}

impl LengthClasses {
    /// The classes of an architecture.
    pub(crate) fn of(model: &Architecture) -> Self {
        Self { long_after: model.long_after() }
    }

    /// The class of a sequence of so many tokens.
    pub(crate) fn class(self, tokens: usize) -> LengthClass {
        match self.long_after {
            Some(most) if tokens > most => LengthClass::Long,
            _ => LengthClass::Usual,
        }
    }
}
