//! spag-world
