//! The two layouts of a file of rows.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::cause::cause;
use crate::error::{Error, Result};

/// How rows stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Elements of one JSON list.
    List,
    /// JSONL: one a line, blank lines between them or not.
    Lines,
}

/// One row of a file, not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub(crate) path: &'a Path,
    pub(crate) layout: Layout,
    pub(crate) number: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// The 1-based row: an element of the list, a line of JSONL.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The row's text.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The row as a `T`.
    ///
    /// # Errors
    /// The row is no `T`: the error names file, row and cause.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.bytes).map_err(|error| {
            let cut_off = match self.layout {
                Layout::List => "is the file cut off?",
                Layout::Lines => "is the file cut off, or one object spread over several lines?",
            };
            let hint = if error.is_eof() { format!("; {cut_off}") } else { String::new() };
            self.error(format!("{}{hint}", cause::<T>(self.bytes, "row", &error)))
        })
    }

    /// The error that says what is wrong with this row.
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::Row { path: self.path.to_owned(), row: self.number, reason: reason.into() }
    }
}
