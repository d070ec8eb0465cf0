//! Helpers of the tests of this crate.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part of this module")]

pub mod report;
pub mod tiny;
