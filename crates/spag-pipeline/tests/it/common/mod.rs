//! Helpers of the tests of this crate.

pub(crate) mod report;
pub(crate) mod tiny;
