//! Samples in files: JSON lists and JSONL, read and written row by row.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use spag_io::{AtomicFile, RowReader};

use crate::{Result, Sample};

/// Reads all samples of a JSON list or JSONL file.
///
/// # Errors
/// The file cannot be read, or a row is not a sample. The error names file, row and cause.
pub fn read_samples(path: impl AsRef<Path>) -> Result<Vec<Sample>> {
    RowReader::open(path)?.map(|row| Ok(row?.1)).collect()
}

/// Writes samples: JSONL if the name ends in `.jsonl`, else an indented JSON list as the reference writes it.
///
/// The file appears when it is complete; until then, an existing one stays.
///
/// # Errors
/// The file cannot be written.
pub fn write_samples(path: impl AsRef<Path>, samples: &[Sample]) -> Result<()> {
    let path = path.as_ref();
    let mut writer = RowWriter::create(path, Layout::of(path))?;
    for sample in samples {
        writer.push(sample)?;
    }
    writer.finish()
}

/// How rows are laid out in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// An indented JSON list.
    List,
    /// JSONL.
    Lines,
}

impl Layout {
    /// The layout for the name of a file.
    pub(crate) fn of(path: &Path) -> Self {
        let is_jsonl = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"));
        if is_jsonl { Self::Lines } else { Self::List }
    }

    /// Appends a row as text: a line, or a list element after a `,`.
    pub(crate) fn append(self, row: &impl Serialize, text: &mut Vec<u8>) -> io::Result<()> {
        let start = text.len();
        match self {
            Self::Lines => {
                serde_json::to_writer(&mut *text, row)?;
                text.push(b'\n');
            }
            Self::List => {
                // A list of one row is indented like an element, between "[" and "\n]".
                serde_json::to_writer_pretty(&mut *text, &[row])?;
                text.truncate(text.len() - "\n]".len());
                text[start] = b',';
            }
        }
        Ok(())
    }
}

/// Writes rows one at a time. The file appears when it is complete.
#[derive(Debug)]
pub(crate) struct RowWriter {
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    file: AtomicFile,
    is_empty: bool,
}

impl RowWriter {
    pub(crate) fn create(path: &Path, layout: Layout) -> Result<Self> {
        Ok(Self { path: path.to_owned(), layout, file: AtomicFile::create(path)?, is_empty: true })
    }

    pub(crate) fn push(&mut self, row: &impl Serialize) -> Result<()> {
        let mut text = Vec::new();
        self.layout.append(row, &mut text).map_err(spag_io::Error::io(&self.path))?;
        self.push_text(&text)
    }

    /// Writes rows from [`Layout::append`].
    pub(crate) fn push_text(&mut self, text: &[u8]) -> Result<()> {
        // The first element follows the list's `[` instead of a `,`.
        let (start, text) = match (self.layout, text) {
            (Layout::List, [_, first @ ..]) if self.is_empty => (&b"["[..], first),
            _ => (&b""[..], text),
        };
        self.is_empty &= text.is_empty();
        self.write(start)?;
        self.write(text)
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.write(match (self.layout, self.is_empty) {
            (Layout::Lines, _) => b"",
            (Layout::List, true) => b"[]\n",
            (Layout::List, false) => b"\n]\n",
        })?;
        Ok(self.file.commit()?)
    }

    fn write(&mut self, text: &[u8]) -> Result<()> {
        Ok(self.file.write_all(text).map_err(spag_io::Error::io(&self.path))?)
    }
}
