//! Rows of a JSON list or of JSONL, one at a time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Reads rows of type `T` from a JSON list or JSONL; memory does not grow with the file.
///
/// Yields the 1-based row (an element of the list, a line of JSONL) with each value.
pub struct RowReader<T> {
    path: PathBuf,
    input: Box<dyn BufRead + Send>,
    layout: Layout,
    row: usize,
    done: bool,
    kind: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for RowReader<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowReader").field("path", &self.path).field("row", &self.row).finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
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
        let io = |source| Error::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Err(io(std::io::Error::new(std::io::ErrorKind::IsADirectory, "this is a folder, not a file")));
        }
        Self::new(path, Box::new(BufReader::with_capacity(1 << 16, file)))
    }

    fn new(path: &Path, mut input: Box<dyn BufRead + Send>) -> Result<Self> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        // A byte-order mark says nothing in UTF-8 and is tolerated.
        if input.fill_buf().map_err(io)?.starts_with(b"\xef\xbb\xbf") {
            input.consume(3);
        }
        skip_space(&mut input).map_err(io)?;
        let layout = match input.fill_buf().map_err(io)?.first() {
            Some(b'[') => {
                input.consume(1);
                Layout::List
            }
            _ => Layout::Lines,
        };
        Ok(Self { path: path.to_owned(), input, layout, row: 0, done: false, kind: PhantomData })
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, reason: impl Into<String>) -> Error {
        Error::Row { path: self.path.clone(), row: self.row, reason: reason.into() }
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn parse(&self, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|e| {
            let truncated = if e.is_eof() { " (is the file cut off?)" } else { "" };
            self.fail(format!("{}{truncated}", without_line(&e)))
        })
    }

    /// The next line that is not blank.
    fn next_line(&mut self) -> Result<Option<T>> {
        loop {
            let mut line = Vec::new();
            let read = self.input.read_until(b'\n', &mut line).map_err(|e| self.io(e))?;
            if read == 0 {
                return Ok(None);
            }
            self.row += 1;
            if !line.trim_ascii().is_empty() {
                return self.parse(line.trim_ascii()).map(Some);
            }
        }
    }

    /// The next element of the list.
    fn next_element(&mut self) -> Result<Option<T>> {
        self.row += 1;
        let Some(byte) = self.peek()? else {
            return Err(self.fail("the list has no closing `]`; is the file cut off?"));
        };
        if byte == b']' {
            self.input.consume(1);
            return match self.peek()? {
                None => Ok(None),
                Some(_) => Err(self.fail("there is something after the list's closing `]`")),
            };
        }
        if self.row > 1 {
            if byte != b',' {
                return Err(self.fail("expected `,` or `]` between the elements of the list"));
            }
            self.input.consume(1);
            self.peek()?;
        }
        let bytes = self.element()?;
        self.parse(&bytes).map(Some)
    }

    /// The next byte that is not white space, left where it is.
    fn peek(&mut self) -> Result<Option<u8>> {
        skip_space(&mut self.input).map_err(|e| self.io(e))?;
        let next = self.input.fill_buf().map(|buffer| buffer.first().copied());
        next.map_err(|e| self.io(e))
    }

    /// The bytes of one element: up to a `,` or `]` outside strings and brackets.
    fn element(&mut self) -> Result<Vec<u8>> {
        let (mut bytes, mut depth, mut string, mut escaped) = (Vec::new(), 0usize, false, false);
        loop {
            let buffer = match self.input.fill_buf() {
                Ok([]) => return Ok(bytes),
                Ok(buffer) => buffer,
                Err(e) => return Err(Error::Io { path: self.path.clone(), source: e }),
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
        match next {
            Ok(Some(value)) => Some(Ok((self.row, value))),
            Ok(None) => {
                self.done = true;
                None
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }
}

/// serde_json's message without its " at line 1 column 17", which counts within the row and misleads.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    format!("{} (column {} of the row)", &text[..end], error.column())
}

fn skip_space(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let space = buffer.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let more = space == buffer.len() && space > 0;
        input.consume(space);
        if !more {
            return Ok(());
        }
    }
}

/// Lets tests read from memory.
impl<T: DeserializeOwned> RowReader<T> {
    /// Reads rows from anything; `path` is what errors name.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn from_reader(path: impl AsRef<Path>, input: impl Read + Send + 'static) -> Result<Self> {
        Self::new(path.as_ref(), Box::new(BufReader::new(input)))
    }
}
