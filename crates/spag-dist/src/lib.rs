//! spag-dist
