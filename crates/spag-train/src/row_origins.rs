//! Where the rows of the training data come from: their file and their number in it.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// Rows that a message names at most.
const NAMED: usize = 8;

/// The file and the number in it of every row read, from 0 over all files. Rows in memory have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowOrigins(Vec<Span>);

/// Consecutive rows of one file with consecutive numbers. Blank lines begin a new span.
#[derive(Clone, Debug, PartialEq)]
struct Span {
    path: PathBuf,
    /// The first row, and its number in the file.
    row: usize,
    number: usize,
}

impl RowOrigins {
    /// Adds `row`, which comes after all rows so far, with its number in the file at `path`.
    pub(crate) fn add(&mut self, path: &Path, number: usize, row: usize) {
        let continues = |span: &Span| span.path == path && span.number + (row - span.row) == number;
        if !self.0.last().is_some_and(continues) {
            self.0.push(Span { path: path.to_owned(), row, number });
        }
    }

    fn of(&self, row: usize) -> Option<(&Path, usize)> {
        let span = self.0.get(self.0.partition_point(|span| span.row <= row).checked_sub(1)?)?;
        Some((&span.path, span.number + (row - span.row)))
    }

    /// A row for a message: "data.jsonl: row 3".
    pub(crate) fn name(&self, row: usize) -> String {
        match self.of(row) {
            Some((path, number)) => format!("{}: row {number}", path.display()),
            None => format!("row {} of the training data", row + 1),
        }
    }

    /// The first of some rows for a message, and how many there are more.
    pub(crate) fn names(&self, rows: &[usize]) -> String {
        let named: Vec<String> = rows.iter().take(NAMED).map(|row| self.name(*row)).collect();
        match rows.len().saturating_sub(NAMED) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }

    /// An error about rows with their files, if they have any.
    pub(crate) fn name_in(&self, error: Error) -> Error {
        match error {
            Error::Sample { row, reason } => match self.of(row) {
                Some((path, row)) => spag_io::Error::Row { path: path.to_owned(), row, reason }.into(),
                None => Error::Sample { row, reason },
            },
            Error::NotFinite { what, count, step, samples, .. } => {
                Error::NotFinite { what, count, step, places: self.names(&samples), samples }
            }
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_file_and_number() {
        let mut origins = RowOrigins::default();
        assert_eq!(origins.name(4), "row 5 of the training data");
        for (row, (file, number)) in [("a", 1), ("a", 2), ("a", 5), ("a", 6), ("b", 1)].into_iter().enumerate() {
            origins.add(Path::new(file), number, row);
        }
        assert_eq!(origins.0.len(), 3);
        assert_eq!(origins.names(&[0, 1, 3, 4]), "a: row 1, a: row 2, a: row 6, b: row 1");
        assert!(origins.names(&[0; 20]).ends_with("a: row 1 and 12 more"));
    }
}
