//! The `spag-train` program: see `spag_cli`.

fn main() {}
