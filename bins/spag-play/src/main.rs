//! The `spag-play` program: see `spag_cli`.

fn main() {}
