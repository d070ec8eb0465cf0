//! The `spag-assign-rewards` program: see `spag_cli`.

fn main() {}
