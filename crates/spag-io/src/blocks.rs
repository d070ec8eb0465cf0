//! Files of rows in blocks: whole rows, as many as one reading brings.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::row::{Layout, Row};
use crate::split::{Found, ListState, lines};

/// Bytes asked for at a time: little enough that a block stays in a core's cache while it is worked on.
const READ: usize = 1 << 18;

/// Reads a JSON list or JSONL in blocks of whole rows; memory does not grow with the file, only with its longest row.
///
/// Blocks can be worked on by several threads: each holds its own bytes. Ends after the first error.
pub struct RowBlocks {
    path: Arc<Path>,
    input: Box<dyn Read + Send>,
    layout: Layout,
    list: ListState,
    /// Lines begun so far.
    line: usize,
    /// Rows handed out so far.
    index: usize,
    /// Read and not dealt with.
    rest: Vec<u8>,
    done: bool,
}

impl RowBlocks {
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
        let mut blocks = Self::with_layout(path.as_ref(), input, Layout::Lines);
        blocks.tell_layout().map_err(|source| blocks.io(source))?;
        Ok(blocks)
    }

    /// Reads rows of a layout that is known.
    pub(crate) fn with_layout(path: &Path, input: impl Read + Send + 'static, layout: Layout) -> Self {
        Self {
            path: path.into(),
            input: Box::new(input),
            layout,
            list: ListState::default(),
            line: 0,
            index: 0,
            rest: Vec::new(),
            done: false,
        }
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads up to the first character, past white space and a byte order mark: in UTF-8 the mark says nothing, but some
    /// editors write it.
    fn tell_layout(&mut self) -> io::Result<()> {
        let mut start = 0;
        loop {
            let more = self.read_more()?;
            // The mark is three bytes; an input may hand out fewer at a time.
            if more && self.rest.len() < 3 {
                continue;
            }
            if start == 0 && self.rest.starts_with(b"\xef\xbb\xbf") {
                start = 3;
            }
            start += self.rest.get(start..).map_or(0, |rest| rest.len() - rest.trim_ascii_start().len());
            if start < self.rest.len() || !more {
                break;
            }
        }
        if self.rest.get(start) == Some(&b'[') {
            (self.layout, start) = (Layout::List, start + 1);
        }
        self.rest.drain(..start);
        Ok(())
    }

    /// Reads once, as much as there is up to a limit that grows with what has been of no use yet; `false` at the end.
    fn read_more(&mut self) -> io::Result<bool> {
        let (had, wanted) = (self.rest.len(), READ.max(self.rest.len()));
        self.rest.resize(had + wanted, 0);
        let read = loop {
            match self.input.read(self.rest.get_mut(had..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.rest.truncate(had + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    fn io(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.to_path_buf(), source }
    }

    fn next_block(&mut self) -> Result<Option<Block>> {
        // What was read to tell the layout may hold rows, and may be all.
        let mut more = !self.rest.is_empty() || self.read_more().map_err(|source| self.io(source))?;
        loop {
            let Found { rows, taken, trouble } = match self.layout {
                Layout::Lines => lines(&self.rest, !more, &mut self.line),
                Layout::List => self.list.split(&self.rest, !more),
            };
            let trouble = trouble.map(|(row, reason)| Error::Row {
                path: self.path.to_path_buf(),
                row,
                reason: reason.to_owned(),
            });
            self.done = !more || trouble.is_some();
            match trouble {
                Some(error) if rows.is_empty() => return Err(error),
                None if rows.is_empty() && self.done => return Ok(None),
                None if rows.is_empty() => {
                    self.rest.drain(..taken);
                    more = self.read_more().map_err(|source| self.io(source))?;
                }
                trouble => {
                    // The rest moves on with the capacity of a whole reading; the block keeps its bytes.
                    let mut rest = Vec::with_capacity(READ + self.rest.len() - taken);
                    rest.extend_from_slice(self.rest.get(taken..).unwrap_or_default());
                    let bytes = std::mem::replace(&mut self.rest, rest);
                    let first_index = self.index;
                    self.index += rows.len();
                    return Ok(Some(Block {
                        path: self.path.clone(),
                        layout: self.layout,
                        bytes,
                        rows,
                        first_index,
                        trouble,
                    }));
                }
            }
        }
    }
}

impl Iterator for RowBlocks {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.next_block().transpose();
        self.done |= !matches!(item, Some(Ok(_)));
        item
    }
}

impl std::fmt::Debug for RowBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowBlocks").field("path", &self.path).field("index", &self.index).finish_non_exhaustive()
    }
}

/// Some rows of a file, one after another, not parsed yet.
#[derive(Debug)]
pub struct Block {
    path: Arc<Path>,
    layout: Layout,
    bytes: Vec<u8>,
    rows: Vec<(usize, Range<usize>)>,
    first_index: usize,
    trouble: Option<Error>,
}

impl Block {
    /// Rows of the file before this block.
    pub fn first_index(&self) -> usize {
        self.first_index
    }

    /// The rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.rows.len()).map(|at| self.row(at))
    }

    /// What is wrong with the file behind these rows, if anything: to be taken after them, since the first bad row counts.
    pub fn take_trouble(&mut self) -> Option<Error> {
        self.trouble.take()
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row at a place of the block; an empty one behind the last.
    pub(crate) fn row(&self, at: usize) -> Row<'_> {
        let (number, range) = self.rows.get(at).cloned().unwrap_or_default();
        let bytes = self.bytes.get(range).unwrap_or_default();
        Row { path: &self.path, layout: self.layout, number, bytes }
    }
}
