//! Rows of a JSON list or a JSONL file, read in chunks for parallel parsing or one at a time.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memchr::{memchr, memchr_iter};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::{Error, Result};
use crate::foreign::foreign_text;
use crate::row::{Layout, Row};

/// Bytes read at a time. A chunk fits into a core's cache.
const CHUNK: usize = 1 << 18;

/// Maximum bytes of a row, which is held in memory: far more than any game.
const MAX_ROW: usize = 1 << 26;

/// Reads a JSON list or a JSONL file in chunks of complete rows. Memory is bounded by the longest row, of at most 64 MiB.
///
/// Each chunk owns its bytes, so threads can parse chunks in parallel. Iteration ends after the first error.
pub struct ChunkReader {
    path: Arc<Path>,
    input: Box<dyn Read + Send>,
    layout: Layout,
    /// Bytes read and not returned yet.
    buffer: Vec<u8>,
    end_of_file: bool,
    /// Lines or list elements found so far.
    row: usize,
    /// Rows returned so far.
    index: usize,
    /// The closing `]` of the list was read.
    closed: bool,
    /// An error after the rows of the last chunk.
    error: Option<Error>,
    done: bool,
}

/// Rows found in the buffer (numbers and byte ranges), and the number of bytes consumed.
type Split = (Vec<(usize, Range<usize>)>, usize);

impl ChunkReader {
    /// Opens a file. A file whose first character is `[` is a JSON list.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let open = || {
            let file = File::open(path)?;
            if file.metadata()?.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "this is a folder, not a file"));
            }
            Ok(file)
        };
        Self::from_reader(path, open().map_err(Error::io(path))?)
    }

    /// [`ChunkReader::open`] that refuses a file without any text. The list `[]` is a file without rows.
    ///
    /// # Errors
    /// As [`ChunkReader::open`], or [`Error::Empty`].
    pub fn open_with_rows(path: impl AsRef<Path>) -> Result<Self> {
        let chunks = Self::open(path)?;
        let is_blank = chunks.layout == Layout::Lines && chunks.end_of_file && chunks.buffer.trim_ascii().is_empty();
        if is_blank { Err(Error::Empty { path: chunks.path.to_path_buf() }) } else { Ok(chunks) }
    }

    /// Reads rows from any input. Error messages name `path`.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn from_reader(path: impl AsRef<Path>, input: impl Read + Send + 'static) -> Result<Self> {
        let mut chunks = Self::with_layout(path.as_ref(), input, Layout::Lines);
        chunks.fill()?;
        if let Some(what) = foreign_text(&chunks.buffer) {
            return Err(Error::io(&chunks.path)(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        if chunks.buffer.starts_with(b"\xef\xbb\xbf") {
            chunks.buffer.drain(..3);
        }
        while chunks.buffer.trim_ascii_start().is_empty() && !chunks.end_of_file {
            chunks.row += memchr_iter(b'\n', &chunks.buffer).count();
            chunks.buffer.clear();
            chunks.fill()?;
        }
        let start = skip_space(&chunks.buffer, 0);
        if chunks.buffer.get(start) == Some(&b'[') {
            chunks.layout = Layout::List;
            chunks.row = 0;
            chunks.buffer.drain(..=start);
        }
        Ok(chunks)
    }

    pub(crate) fn with_layout(path: &Path, input: impl Read + Send + 'static, layout: Layout) -> Self {
        Self {
            path: path.into(),
            input: Box::new(input),
            layout,
            buffer: Vec::new(),
            end_of_file: false,
            row: 0,
            index: 0,
            closed: false,
            error: None,
            done: false,
        }
    }

    /// Reads a chunk, or as much as the buffer holds if a row is longer than a chunk.
    fn fill(&mut self) -> Result<()> {
        let length = CHUNK.max(self.buffer.len());
        self.buffer.reserve(length);
        let read = self.input.by_ref().take(length as u64).read_to_end(&mut self.buffer);
        self.end_of_file = read.map_err(Error::io(&self.path))? < length;
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<Option<RowChunk>> {
        loop {
            let (rows, taken) = match self.layout {
                Layout::Lines => self.split_lines(),
                Layout::List => self.split_list(),
            };
            if !rows.is_empty() {
                let rest = self.buffer.split_off(taken);
                let bytes = std::mem::replace(&mut self.buffer, rest);
                let first_index = self.index;
                self.index += rows.len();
                return Ok(Some(RowChunk { path: self.path.clone(), layout: self.layout, bytes, rows, first_index }));
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.end_of_file {
                return Ok(None);
            }
            self.buffer.drain(..taken);
            if self.buffer.len() > MAX_ROW {
                let reason = format!("this row has more than {} MiB; is this a file of rows?", MAX_ROW >> 20);
                return Err(Error::Row { path: self.path.to_path_buf(), row: self.row + 1, reason });
            }
            self.fill()?;
        }
    }

    fn split_lines(&mut self) -> Split {
        let (mut rows, mut taken) = (Vec::new(), 0);
        while let Some(rest) = self.buffer.get(taken..).filter(|rest| !rest.is_empty()) {
            let (line, end) = match memchr(b'\n', rest) {
                Some(at) => (&rest[..at], taken + at + 1),
                None if self.end_of_file => (rest, self.buffer.len()),
                None => break,
            };
            self.row += 1;
            let start = skip_space(&self.buffer, taken);
            let length = line.trim_ascii().len();
            if length > 0 {
                rows.push((self.row, start..start + length));
            }
            taken = end;
        }
        (rows, taken)
    }

    fn split_list(&mut self) -> Split {
        let (mut rows, mut taken) = (Vec::new(), 0);
        while self.error.is_none() {
            let mut start = skip_space(&self.buffer, taken);
            match self.buffer.get(start) {
                None if self.end_of_file && !self.closed => {
                    self.fail(self.row + 1, "the list has no closing `]`; is the file cut off?");
                    break;
                }
                None => break,
                Some(_) if self.closed => {
                    self.fail(self.row + 1, "text follows the closing `]` of the list");
                    break;
                }
                Some(b']') => {
                    self.closed = true;
                    taken = start + 1;
                    continue;
                }
                Some(b',') if self.row > 0 => start = skip_space(&self.buffer, start + 1),
                Some(_) if self.row > 0 => {
                    self.fail(self.row, "`,` or `]` is missing after this element of the list");
                    break;
                }
                Some(_) => {}
            }
            let rest = self.buffer.get(start..).unwrap_or_default();
            let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
            taken = match values.next() {
                // A number at the end of the buffer may continue in the file.
                Some(Ok(_)) if values.byte_offset() < rest.len() || self.end_of_file => start + values.byte_offset(),
                // `Row::parse` reports the error with its key.
                Some(Err(error)) if !error.is_eof() || self.end_of_file => self.buffer.len(),
                // Nothing after the last `,`.
                None if self.end_of_file => self.buffer.len(),
                _ => break,
            };
            self.row += 1;
            rows.push((self.row, start..taken));
        }
        (rows, taken)
    }

    fn fail(&mut self, row: usize, reason: &str) {
        self.error = Some(Error::Row { path: self.path.to_path_buf(), row, reason: reason.to_owned() });
    }
}

impl Iterator for ChunkReader {
    type Item = Result<RowChunk>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let chunk = match self.error.take() {
            Some(error) => Err(error),
            None => self.next_chunk(),
        };
        self.done = !matches!(chunk, Ok(Some(_)));
        chunk.transpose()
    }
}

impl std::fmt::Debug for ChunkReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkReader").field("path", &self.path).field("index", &self.index).finish_non_exhaustive()
    }
}

/// The first position at or after `from` that is not white space.
fn skip_space(bytes: &[u8], from: usize) -> usize {
    bytes.len() - bytes.get(from..).unwrap_or_default().trim_ascii_start().len()
}

/// Consecutive rows of a file, not parsed yet.
#[derive(Debug)]
pub struct RowChunk {
    path: Arc<Path>,
    layout: Layout,
    bytes: Vec<u8>,
    rows: Vec<(usize, Range<usize>)>,
    first_index: usize,
}

impl RowChunk {
    /// The 0-based index in the file of the first row.
    pub fn first_index(&self) -> usize {
        self.first_index
    }

    /// The rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.rows.iter().map(|(number, range)| Row {
            path: &self.path,
            layout: self.layout,
            number: *number,
            bytes: self.bytes.get(range.clone()).unwrap_or_default(),
        })
    }
}

/// Reads rows of type `T` from a JSON list or a JSONL file. Memory does not grow with the file.
///
/// Yields each value with its 1-based row (an element of the list, a line of JSONL). Ends after the first error.
#[derive(Debug)]
pub struct RowReader<T> {
    path: Arc<Path>,
    chunks: ChunkReader,
    parsed: std::vec::IntoIter<Result<(usize, T)>>,
    done: bool,
}

impl<T: DeserializeOwned> RowReader<T> {
    /// Opens a file. A file whose first character is `[` is a JSON list.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ChunkReader::open(path).map(Self::new)
    }

    /// [`RowReader::open`] that refuses a file without any text. The list `[]` is a file without rows.
    ///
    /// # Errors
    /// As [`RowReader::open`], or [`Error::Empty`].
    pub fn open_with_rows(path: impl AsRef<Path>) -> Result<Self> {
        ChunkReader::open_with_rows(path).map(Self::new)
    }

    pub(crate) fn new(chunks: ChunkReader) -> Self {
        Self { path: chunks.path.clone(), chunks, parsed: Vec::new().into_iter(), done: false }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl<T: DeserializeOwned> Iterator for RowReader<T> {
    type Item = Result<(usize, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            if let Some(row) = self.parsed.next() {
                self.done = row.is_err();
                return Some(row);
            }
            match self.chunks.next()? {
                Ok(chunk) => {
                    let rows = chunk.rows().map(|row| Ok((row.number(), row.parse()?)));
                    self.parsed = rows.collect::<Vec<_>>().into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;

    /// All rows of an input that is read `step` bytes at a time, and the row number of the error.
    fn rows(text: &'static str, step: usize) -> (Vec<(usize, String)>, Option<usize>) {
        let (mut rows, mut error) = (Vec::new(), None);
        let mut chunks = ChunkReader::from_reader("in memory", "".as_bytes()).unwrap();
        let bytes = text.as_bytes();
        if bytes.first() == Some(&b'[') {
            chunks.layout = Layout::List;
        }
        let mut at = usize::from(chunks.layout == Layout::List);
        loop {
            let end = (at + step).min(bytes.len());
            chunks.buffer.extend_from_slice(&bytes[at..end]);
            (at, chunks.end_of_file) = (end, end == bytes.len());
            let (found, taken) = match chunks.layout {
                Layout::Lines => chunks.split_lines(),
                Layout::List => chunks.split_list(),
            };
            let buffer = &chunks.buffer;
            rows.extend(
                found.into_iter().map(|(row, range)| (row, String::from_utf8_lossy(&buffer[range]).into_owned())),
            );
            chunks.buffer.drain(..taken);
            if let Some(Error::Row { row, .. }) = chunks.error.take() {
                error = Some(row);
            }
            if error.is_some() || chunks.end_of_file {
                return (rows, error);
            }
        }
    }

    #[test]
    fn rows_do_not_depend_on_the_size_of_reads() {
        let rows_of = |rows: &[(usize, &str)]| rows.iter().map(|(row, text)| (*row, (*text).to_owned())).collect();
        let none: &[(usize, &str)] = &[];
        for (text, expected, error) in [
            ("[ ] \n", none, None),
            (
                r#"[ {"a": "],}\"\\"} , [1, {"b": 2}],3 ] "#,
                &[(1, r#"{"a": "],}\"\\"}"#), (2, r#"[1, {"b": 2}]"#), (3, "3")],
                None,
            ),
            ("[1, 23", &[(1, "1"), (2, "23")], Some(3)),
            ("[1] x", &[(1, "1")], Some(2)),
            ("[true false]", &[(1, "true")], Some(1)),
            ("[1, \"a", &[(1, "1"), (2, "\"a")], Some(3)),
            ("[", none, Some(1)),
            ("\n a \r\n\n  \nb", &[(2, "a"), (5, "b")], None),
        ] {
            for step in 1..=text.len() {
                assert_eq!(rows(text, step), (rows_of(expected), error), "{text} in pieces of {step}");
            }
        }
    }
}
