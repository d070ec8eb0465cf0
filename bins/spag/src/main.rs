//! The `spag` program: see `spag_cli`.

fn main() {}
