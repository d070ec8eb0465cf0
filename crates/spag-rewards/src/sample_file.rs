//! Samples in files: JSON lists and JSONL, read and written row by row.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use spag_io::{AtomicFile, RowReader};

use crate::{Error, Result, Sample};

/// Reads all samples of a JSON list or JSONL file.
///
/// # Errors
/// A file that cannot be read, or a row that is no sample; the error names file, row and cause.
pub fn read_samples(path: impl AsRef<Path>) -> Result<Vec<Sample>> {
    RowReader::open(path)?.map(|row| Ok(row?.1)).collect()
}

/// Writes samples: a line each if the name ends in `.jsonl`, else a JSON list as the reference writes it.
///
/// The file appears when it is complete; one that was there stays until then.
///
/// # Errors
/// A file that cannot be written.
pub fn write_samples(path: impl AsRef<Path>, samples: &[Sample]) -> Result<()> {
    let mut writer = RowWriter::create(path.as_ref())?;
    for sample in samples {
        writer.push(sample)?;
    }
    writer.finish()
}

/// Writes rows one at a time into a file that appears when it is complete.
#[derive(Debug)]
pub(crate) struct RowWriter {
    path: PathBuf,
    out: AtomicFile,
    layout: Layout,
    rows: usize,
}

/// How rows stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Elements of an indented JSON list; each has before it what parts it from the one before.
    List,
    /// One a line.
    Lines,
}

impl RowWriter {
    /// Starts a file whose layout goes by its name, see [`write_samples`].
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let lines = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"));
        Self::with_layout(path, if lines { Layout::Lines } else { Layout::List })
    }

    /// Starts a file of lines, whatever its name.
    pub(crate) fn create_lines(path: &Path) -> Result<Self> {
        Self::with_layout(path, Layout::Lines)
    }

    fn with_layout(path: &Path, layout: Layout) -> Result<Self> {
        Ok(Self { path: path.to_owned(), out: AtomicFile::create(path)?, layout, rows: 0 })
    }

    pub(crate) fn push(&mut self, row: &impl Serialize) -> Result<()> {
        let text = match self.layout {
            Layout::Lines => serde_json::to_string(row).map(|row| row + "\n"),
            Layout::List => serde_json::to_string_pretty(row).map(|row| {
                // Line breaks within strings are escaped, so every one of them is layout and may be indented.
                let before = if self.rows == 0 { "[\n  " } else { ",\n  " };
                before.to_owned() + &row.replace('\n', "\n  ")
            }),
        };
        self.rows += 1;
        let written = text.map_err(io::Error::from).and_then(|text| self.out.write_all(text.as_bytes()));
        written.map_err(|source| self.error(source))
    }

    /// How the rows of the file stand.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes rows that are text in the layout already: lines with their ends, or elements that each begin with `,`.
    pub(crate) fn push_text(&mut self, rows: usize, text: &str) -> Result<()> {
        // The first element of a list has the list's beginning in place of the comma.
        let (before, text) = match (self.layout, self.rows) {
            (Layout::List, 0) if rows > 0 => ("[", text.strip_prefix(',').unwrap_or(text)),
            _ => ("", text),
        };
        self.rows += rows;
        let written = self.out.write_all(before.as_bytes()).and_then(|()| self.out.write_all(text.as_bytes()));
        written.map_err(|source| self.error(source))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        let end: &[u8] = match (self.layout, self.rows) {
            (Layout::Lines, _) => b"",
            (Layout::List, 0) => b"[]\n",
            (Layout::List, _) => b"\n]\n",
        };
        self.out.write_all(end).map_err(|source| self.error(source))?;
        Ok(self.out.commit()?)
    }

    fn error(&self, source: io::Error) -> Error {
        spag_io::Error::Io { path: self.path.clone(), source }.into()
    }
}
