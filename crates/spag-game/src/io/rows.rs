//! Rows of a JSON list or of JSONL, one at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::cause::cause;
use crate::error::{Error, Result};

/// Reads rows of type `T` from a JSON list or JSONL; memory does not grow with the file.
///
/// Yields the 1-based row (an element of the list, a line of JSONL) with each value, and ends after the first error.
pub struct RowReader<T> {
    path: PathBuf,
    input: Box<dyn BufRead + Send>,
    layout: Layout,
    /// Rows begun so far.
    row: usize,
    done: bool,
    kind: PhantomData<fn() -> T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    List,
    Lines,
}

impl<T: DeserializeOwned> RowReader<T> {
    /// Opens a file; which layout it has is told by its first character.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let open = || {
            let file = File::open(path)?;
            match file.metadata()?.is_dir() {
                true => Err(io::Error::new(io::ErrorKind::IsADirectory, "this is a folder, not a file")),
                false => Ok(file),
            }
        };
        let file = open().map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Self::from_reader(path, file)
    }

    /// Reads rows from anything; `path` is what errors name.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn from_reader(path: impl AsRef<Path>, input: impl Read + Send + 'static) -> Result<Self> {
        let mut reader = Self::with_layout(path.as_ref(), input, Layout::Lines);
        reader.skip_byte_order_mark()?;
        if reader.peek()? == Some(b'[') {
            reader.input.consume(1);
            reader.layout = Layout::List;
        }
        Ok(reader)
    }

    /// Reads rows of a layout that is known.
    pub(super) fn with_layout(path: &Path, input: impl Read + Send + 'static, layout: Layout) -> Self {
        let input = Box::new(BufReader::with_capacity(1 << 16, input));
        Self { path: path.to_owned(), input, layout, row: 0, done: false, kind: PhantomData }
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// In UTF-8 the mark says nothing, but some editors write it.
    fn skip_byte_order_mark(&mut self) -> Result<()> {
        let buffer = self.input.fill_buf().map_err(|source| Error::Io { path: self.path.clone(), source })?;
        if buffer.starts_with(b"\xef\xbb\xbf") {
            self.input.consume(3);
        }
        Ok(())
    }

    fn fail(&self, reason: impl Into<String>) -> Error {
        Error::Row { path: self.path.clone(), row: self.row, reason: reason.into() }
    }

    fn io(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn parse(&self, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| {
            let cut_off = match self.layout {
                Layout::List => "is the file cut off?",
                Layout::Lines => "is the file cut off, or one object spread over several lines?",
            };
            let hint = if error.is_eof() { format!("; {cut_off}") } else { String::new() };
            self.fail(format!("{}{hint}", cause::<T>(bytes, "row", &error)))
        })
    }

    /// The next line that is not blank.
    fn next_line(&mut self) -> Result<Option<T>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.input.read_until(b'\n', &mut line).map_err(|e| self.io(e))? == 0 {
                return Ok(None);
            }
            self.row += 1;
            if !line.trim_ascii().is_empty() {
                return self.parse(line.trim_ascii()).map(Some);
            }
        }
    }

    /// The next element of the list, or what follows the last one.
    fn next_element(&mut self) -> Result<Option<T>> {
        self.row += 1;
        match self.peek()? {
            None => return Err(self.fail("the list has no closing `]`; is the file cut off?")),
            Some(b']') => {
                self.input.consume(1);
                return match self.peek()? {
                    None => Ok(None),
                    Some(_) => Err(self.fail("there is something after the list's closing `]`")),
                };
            }
            Some(b',') if self.row > 1 => {
                self.input.consume(1);
                self.peek()?;
            }
            Some(_) if self.row > 1 => {
                return Err(self.fail("`,` or `]` is missing before this element of the list"));
            }
            Some(_) => {}
        }
        match self.element()? {
            bytes if bytes.is_empty() && self.peek()?.is_some() => {
                Err(self.fail("an element is missing before this `,` or `]`"))
            }
            bytes => self.parse(&bytes).map(Some),
        }
    }

    /// The next byte that is not white space, left where it is.
    fn peek(&mut self) -> Result<Option<u8>> {
        loop {
            let buffer = self.input.fill_buf().map_err(|source| Error::Io { path: self.path.clone(), source })?;
            let (length, next) = (buffer.len(), buffer.iter().position(|byte| !byte.is_ascii_whitespace()));
            let found = next.and_then(|at| buffer.get(at).copied());
            self.input.consume(next.unwrap_or(length));
            if found.is_some() || length == 0 {
                return Ok(found);
            }
        }
    }

    /// The bytes of one element: up to a `,` or `]` outside strings and brackets.
    fn element(&mut self) -> Result<Vec<u8>> {
        let (mut bytes, mut depth, mut string, mut escaped) = (Vec::new(), 0usize, false, false);
        loop {
            let buffer = match self.input.fill_buf() {
                Ok([]) => return Ok(bytes),
                Ok(buffer) => buffer,
                Err(source) => return Err(Error::Io { path: self.path.clone(), source }),
            };
            let end = buffer.iter().position(|byte| {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if string => escaped = true,
                    b'"' => string = !string,
                    _ if string => {}
                    b'{' | b'[' => depth += 1,
                    b',' | b']' if depth == 0 => return true,
                    b'}' | b']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                false
            });
            let taken = end.unwrap_or(buffer.len());
            bytes.extend_from_slice(&buffer[..taken]);
            self.input.consume(taken);
            if end.is_some() {
                return Ok(bytes);
            }
        }
    }
}

impl<T: DeserializeOwned> Iterator for RowReader<T> {
    type Item = Result<(usize, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = match self.layout {
            Layout::Lines => self.next_line(),
            Layout::List => self.next_element(),
        };
        let item = next.map(|value| value.map(|value| (self.row, value))).transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<T> std::fmt::Debug for RowReader<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowReader").field("path", &self.path).field("row", &self.row).finish_non_exhaustive()
    }
}
