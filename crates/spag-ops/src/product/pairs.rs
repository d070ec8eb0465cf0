//! Panels of pairs: elements 2i and 2i + 1 of a column are adjacent, as bf16 instructions read them. An unpaired last
//! step is stored contiguously.

/// As [`super::Format::index`], for a panel of `COLUMNS` columns.
pub(crate) fn index<const COLUMNS: usize>(k: usize, step: usize, column: usize) -> usize {
    if step + 1 == k && step.is_multiple_of(2) {
        step * COLUMNS + column
    } else {
        (step / 2 * COLUMNS + column) * 2 + step % 2
    }
}
