//! tmp
use std::io::{BufRead, Write};
fn main() {
    let mut out = std::io::BufWriter::new(std::io::stdout());
    for l in std::io::stdin().lock().lines() {
        let l = l.unwrap();
        writeln!(out, "{}", spag_game::pluralize(&l)).unwrap();
    }
}
